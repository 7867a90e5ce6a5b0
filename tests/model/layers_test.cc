// What a layer is made of is data: whose cells it looks at, where its norms stand, what mixes its
// rows. No model that runs today differs in these, so the laws are shown on models changed by hand.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/kernels/weight_matrix.h"
#include "common/model/layers/mixer.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"
#include "tests/model/wrapped_store.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using Logits = std::vector<std::vector<float>>;

constexpr TokenId kText[] = {3, 141, 59, 26, 53, 58, 97, 93};

Logits Read(LoadedModel& engine) {
  const auto sequence = engine.NewSequence();
  return engine.Read(*sequence, kText);
}

class Layers : public testing::Test {
 protected:
  Layers() { WriteRandomModel(SmallModel("llama"), TensorType::kF32, path_); }

  // The same model with another byte in the middle of a tensor.
  std::string With(const std::string& tensor) {
    std::string bytes = Contents(path_);
    const ModelTensor found = *OrDie(ModelFile::Open(path_))->Find(tensor);
    bytes[found.place->offset + found.bytes / 2 + 2] ^= 0x55;
    return dir_.Write("changed.gguf", bytes);
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
};

// Gives layers norms after their halves, whose weights are zero where they are to be silent.
class NormsAfter final : public WrappedStore {
 public:
  NormsAfter(WeightStore& store, float attention, float feed_forward, uint32_t end_layer)
      : WrappedStore(store),
        attention_(256, attention),
        feed_forward_(256, feed_forward),
        end_layer_(end_layer) {}

  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    if (key.layer >= end_layer_) return store_.Acquire(key);
    layer_ = *OrDie(store_.Acquire(key));
    layer_.mixer_norms.after.weight = attention_;
    layer_.feed_forward_norms.after.weight = feed_forward_;
    return Lease<LayerWeights>(*this, key, layer_);
  }

 private:
  const std::vector<float> attention_, feed_forward_;
  const uint32_t end_layer_;
  LayerWeights layer_;
};

LoadedModelOptions WithNormsAfter(float attention, float feed_forward, uint32_t end_layer = 2) {
  return {.wrap_weights = [=](WeightStore& store) {
    return std::make_unique<NormsAfter>(store, attention, feed_forward, end_layer);
  }};
}

TEST_F(Layers, MayLookAtTheCellsOfALayerBelow) {
  const auto share = [](ModelSpec& spec) { spec.layers[1].attention()->cells_of = 0; };
  LoadedModel plain(path_), shared(path_, {.change_spec = share});
  EXPECT_NE(Read(shared), Read(plain));
  EXPECT_EQ(shared.memory->layout().page_bytes(0), plain.memory->layout().page_bytes(0) / 2);
  for (const char* own : {"blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
    const std::string changed = With(own);
    LoadedModel plain_changed(changed), shared_changed(changed, {.change_spec = share});
    EXPECT_NE(Read(plain_changed), Read(plain)) << own;
    EXPECT_EQ(Read(shared_changed), Read(shared)) << own << " is nobody's";
  }

  // Where the layer below adds nothing itself, its values are heard of in the layer above alone.
  LoadedModelOptions muted = WithNormsAfter(0, 0, 1);
  const std::string changed = With("blk.0.attn_v.weight");
  LoadedModel plain_muted(path_, muted), plain_changed(changed, muted);
  EXPECT_EQ(Read(plain_changed), Read(plain_muted));
  muted.change_spec = share;
  LoadedModel shared_muted(path_, muted), shared_changed(changed, muted);
  EXPECT_NE(Read(shared_changed), Read(shared_muted));
}

TEST_F(Layers, NormWhatLeavesThemWhereTheyHaveANormThere) {
  LoadedModel plain(path_), normed(path_, WithNormsAfter(1, 1)),
      silent(path_, WithNormsAfter(0, 0));
  EXPECT_NE(Read(normed), Read(plain));
  // With nothing added, the stream stays what it was at the beginning.
  Read(silent);
  std::vector<float> embedding(256);
  for (size_t i = 0; i < std::size(kText); ++i) {
    DecodeRow(silent.weights->entry().embeddings, static_cast<uint32_t>(kText[i]), embedding);
    const std::span<const float> hidden = silent.transformer->hidden(i);
    EXPECT_TRUE(std::equal(hidden.begin(), hidden.end(), embedding.begin())) << i;
  }
}

// A norm of the sum is the last thing a layer does: every row leaves it with a mean square of one.
TEST_F(Layers, NormTheSumWhereItHasANormThere) {
  class NormsOfSums final : public WrappedStore {
   public:
    using WrappedStore::WrappedStore;
    absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
      layer_ = *OrDie(store_.Acquire(key));
      layer_.mixer_norms.sum.weight = twos_;
      layer_.feed_forward_norms = {
          .before = {}, .after = {.weight = zeros_, .bias = {}}, .sum = {}};
      return Lease<LayerWeights>(*this, key, layer_);
    }

   private:
    const std::vector<float> twos_ = std::vector<float>(256, 2.0f),
                             zeros_ = std::vector<float>(256);
    LayerWeights layer_;
  };
  LoadedModel normed(path_, {.wrap_weights = [](WeightStore& store) {
                       return std::make_unique<NormsOfSums>(store);
                     }});
  Read(normed);
  for (size_t i = 0; i < std::size(kText); ++i) {
    double sum = 0;
    for (const float x : normed.transformer->hidden(i)) sum += double{x} * double{x};
    EXPECT_TRUE(std::abs(sum / 256 - 4) <= 1e-3) << sum / 256;  // epsilon is small beside the state
  }
}

// Adds nothing, and remembers what it was asked.
class SilentMixer final : public Mixer {
 public:
  void Begin(const Batch& batch) override { begun_rows += batch.row_count(); }
  void Mix(const MixerRun& run, const RowBlock&, const RowBlock& out) override {
    layers.push_back(run.layer);
    for (uint32_t i = 0; i < run.row_count(); ++i) std::fill_n(out.row(i), 256, 0.0f);
  }

  uint32_t begun_rows = 0;
  std::vector<uint32_t> layers;
};

// Some layers' mixer is another one, which keeps what attention would, and leaves it alone.
std::function<void(ModelSpec&)> WithGuest(Mixer& mixer, std::vector<uint32_t> layers) {
  return [&mixer, layers = std::move(layers)](ModelSpec& spec) {
    for (const uint32_t layer : layers) {
      spec.layers[layer].mixer = GuestMixer{"silence", KeepsOf(spec)[layer], &mixer};
    }
  };
}

TEST_F(Layers, MayHaveAnotherMixerThanAttention) {
  SilentMixer mixer;
  LoadedModel one(path_, {.change_spec = WithGuest(mixer, {1})}), plain(path_);
  EXPECT_NE(Read(one), Read(plain));
  EXPECT_EQ(mixer.layers, (std::vector<uint32_t>{1}));
  EXPECT_EQ(mixer.begun_rows, std::size(kText));
  LoadedModelOptions options = WithNormsAfter(1, 1);
  options.change_spec = WithGuest(mixer, {0, 1});
  LoadedModel both(path_, options), silent(path_, WithNormsAfter(0, 1));
  EXPECT_EQ(Read(both), Read(silent)) << "silence, whichever way";
}

}  // namespace
}  // namespace outrider
