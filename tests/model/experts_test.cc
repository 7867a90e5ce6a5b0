// Who is asked, how much of it counts, and what is read for it.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/model/layers/expert_feed_forward.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ExpertChoice> Choose(const RouterSpec& router, std::vector<float> logits) {
  const ScopedIeeeMode ieee;
  std::vector<ExpertChoice> choices(router.used_count);
  ChooseExperts(router, KernelsFor(BestIsa()).rows, logits.data(), choices);
  return choices;
}

std::vector<uint32_t> IdsOf(const std::vector<ExpertChoice>& choices) {
  std::vector<uint32_t> experts;
  for (const ExpertChoice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST(ChooseExperts, BestFirstAndOfEqualOnesTheLowest) {
  const RouterSpec router{.expert_count = 6, .used_count = 3, .renormalize = true};
  EXPECT_THAT(IdsOf(Choose(router, {1, 5, 2, 5, 0, 4})), ElementsAre(1, 3, 5));
  EXPECT_THAT(IdsOf(Choose(router, {2, 2, 2, 2, 2, 2})), ElementsAre(0, 1, 2));
  EXPECT_THAT(IdsOf(Choose(router, {-9, -8, -7, -7, -8, -9})), ElementsAre(2, 3, 1));
}

TEST(ChooseExperts, WeightsAreTheSoftmaxOverAllDividedByTheirSumWhereTheRouterSaysSo) {
  const std::vector<float> logits = {0.5f, -1.25f, 3.0f, 2.5f, 0.0f};
  double all = 0;
  for (const float logit : logits) all += std::exp(double{logit});
  const double best = std::exp(3.0), second = std::exp(2.5);
  RouterSpec router{.expert_count = 5, .used_count = 2, .renormalize = false};
  const std::vector<ExpertChoice> plain = Choose(router, logits);
  EXPECT_NEAR(plain[0].weight, best / all, 1e-6);
  EXPECT_NEAR(plain[1].weight, second / all, 1e-6);
  router.renormalize = true;
  const std::vector<ExpertChoice> renormalized = Choose(router, logits);
  EXPECT_NEAR(renormalized[0].weight, best / (best + second), 1e-6);
  EXPECT_NEAR(renormalized[1].weight, second / (best + second), 1e-6);
}

// So that the row's logits are refused, and nobody reads past an end meanwhile.
TEST(ChooseExperts, WhatIsNoNumberSpoilsTheWeights) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RouterSpec router{.expert_count = 4, .used_count = 2, .renormalize = true};
  for (size_t at = 0; at < 4; ++at) {
    std::vector<float> logits = {1, 2, 3, 4};
    logits[at] = nan;
    const std::vector<ExpertChoice> choices = Choose(router, logits);
    EXPECT_NE(choices[0].expert, choices[1].expert);
    for (const ExpertChoice& choice : choices) {
      EXPECT_LT(choice.expert, 4u);
      EXPECT_TRUE(std::isnan(choice.weight)) << at;
    }
  }
}

uint64_t BytesOf(const WeightMatrix& matrix) {
  return matrix.outputs == 0 ? 0 : PackedBytes(matrix.type, matrix.outputs, matrix.inputs);
}

uint64_t BytesOf(const FeedForwardWeights& weights) {
  return BytesOf(weights.gate.matrix) + BytesOf(weights.up.matrix) + BytesOf(weights.down.matrix);
}

// Counts what is leased.
class CountingStore final : public WrappedStore {
 public:
  using WrappedStore::WrappedStore;

  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    OUTRIDER_ASSIGN_OR_RETURN(Lease<FeedForwardWeights> lease, store_.Acquire(key));
    expert_bytes += BytesOf(*lease);
    EXPECT_TRUE(leased.insert({key.layer, key.expert}).second) << "once a run";
    return lease;
  }

  uint64_t expert_bytes = 0;
  std::set<std::pair<uint32_t, uint32_t>> leased;
};

class ExpertsTest : public testing::TestWithParam<std::string> {
 protected:
  ExpertsTest() { WriteRandomModel(SmallModel(GetParam()), TensorType::kQ8_0, path_); }

  LoadedModelOptions Counting() {
    return {.wrap_weights = [this](WeightStore& weights) {
      auto counting = std::make_unique<CountingStore>(weights);
      store_ = counting.get();
      return counting;
    }};
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
  CountingStore* store_ = nullptr;
};

TEST_P(ExpertsTest, OneTokenReadsTheExpertsItGoesToAndNoOthers) {
  LoadedModel engine(path_, Counting());
  const Experts& experts = engine.model->hyperparameters().experts;
  const auto sequence = engine.NewSequence();
  for (const TokenId token : {7, 70, 150}) {
    store_->expert_bytes = 0;
    store_->leased.clear();
    engine.Read(*sequence, {&token, 1});
    const uint64_t one = BytesOf(*OrDie(engine.weights->Acquire(ExpertKey{0, 0})));
    EXPECT_EQ(store_->leased.size(), size_t{experts.used_count} * engine.spec.layer_count());
    EXPECT_EQ(store_->expert_bytes, one * experts.used_count * engine.spec.layer_count());
  }
}

TEST_P(ExpertsTest, RowsThatAgreeReadAnExpertOnce) {
  LoadedModel engine(path_, Counting());
  const auto sequence = engine.NewSequence();
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < 40; ++token) tokens.push_back(token * 5);
  engine.Read(*sequence, tokens);  // CountingStore objects to a second time
  EXPECT_LE(store_->leased.size(),
            size_t{engine.spec.layers[0].feed_forward.router->expert_count} * 2);
}

TEST_P(ExpertsTest, NothingAllocatesPerRun) {
  LoadedModel engine(path_, {.thread_count = 1});
  const auto sequence = engine.NewSequence();
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9};
  OUTRIDER_CHECK_OK(sequence->Reserve(6, 0));
  engine.batch.Clear();
  engine.batch.AddChain(*sequence, tokens);
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 3; ++i) OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
  EXPECT_EQ(AllocationCount(), before);
}

// As files of before 2024 have them: every expert's matrices in tensors of their own.
void WriteUnstacked(const ModelFile& model, const std::string& path) {
  GgufWriter writer;
  OUTRIDER_CHECK_OK(model.AddMetadata(writer));
  const auto stem_of = [](const std::string& name) { return name.substr(0, name.find("_exps")); };
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.dims.size() < 3) {
      OUTRIDER_CHECK_OK(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
      continue;
    }
    for (uint64_t e = 0; e < tensor.dims[2]; ++e) {
      OUTRIDER_CHECK_OK(writer.AddTensor(Concat(stem_of(tensor.name), ".", e, ".weight"),
                                         tensor.type, std::span(tensor.dims).first(2)));
    }
  }
  OUTRIDER_CHECK_OK(writer.Begin(path));
  for (const ModelTensor& tensor : model.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    OUTRIDER_CHECK_OK(model.ReadRows(tensor, 0, tensor.row_count(), bytes));
    OUTRIDER_CHECK_OK(writer.Write(bytes));
  }
  OUTRIDER_CHECK_OK(writer.Commit());
}

TEST_P(ExpertsTest, AreTheSameInTensorsOfTheirOwn) {
  const std::string unstacked = dir_.File("unstacked.gguf");
  LoadedModel stacked(path_);
  WriteUnstacked(*stacked.model, unstacked);
  LoadedModel apart(unstacked);
  const std::vector<TokenId> tokens = {3, 141, 59, 26, 53, 58, 97};
  const auto a = stacked.NewSequence(), b = apart.NewSequence();
  EXPECT_EQ(apart.Read(*b, tokens), stacked.Read(*a, tokens));
}

INSTANTIATE_TEST_SUITE_P(Families, ExpertsTest, testing::Values("mixtral", "qwen3moe", "olmoe"),
                         [](const auto& test) { return test.param; });

absl::Status OpenChanged(const Hyperparameters& says, const Hyperparameters& has,
                         const std::string& path) {
  // The tensors of one model under the numbers of another.
  WriteRandomModel(has, TensorType::kQ8_0, path + ".has");
  const std::unique_ptr<ModelFile> model = OrDie(ModelFile::Open(path + ".has"));
  GgufWriter writer;
  AddHyperparameterMetadata(says, writer);
  for (const ModelTensor& tensor : model->tensors()) {
    OUTRIDER_CHECK_OK(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
  }
  OUTRIDER_CHECK_OK(writer.Begin(path));
  for (const ModelTensor& tensor : model->tensors()) {
    OUTRIDER_CHECK_OK(writer.Write(std::vector<std::byte>(tensor.bytes)));
  }
  OUTRIDER_CHECK_OK(writer.Commit());
  return ModelFile::Open(path).status();
}

TEST(ExpertCounts, ThatDoNotFitAreRefusedByName) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  const Hyperparameters has = SmallModel("mixtral");
  Hyperparameters says = has;
  says.experts.used_count = 9;
  EXPECT_EQ(Message(OpenChanged(says, has, path)),
            path + ": llama.expert_used_count is 9, more than llama.expert_count, 5");
  says = has;
  says.experts.count = 7;
  EXPECT_EQ(Message(OpenChanged(says, has, path)),
            path + ": tensor blk.0.ffn_gate_inp.weight is [256, 5], expected [256, 7]");
  says = has;
  says.experts.feed_forward_length = says.feed_forward_length = 512;
  EXPECT_EQ(Message(OpenChanged(says, has, path)),
            path + ": tensor blk.0.ffn_gate_exps.weight is [256, 256, 5], expected [256, 512, 5]");
}

}  // namespace
}  // namespace outrider
