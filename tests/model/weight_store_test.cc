// A store that holds next to nothing: what a key names is read when it is asked for, into whichever
// slot is next. The forward pass must not notice, and whoever may work while it waits is let.
#include "common/model/weights/weight_store.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/model/weights/load_plan.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

template <typename Weights>
void Load(const ModelFile& model, const LoadPlan<Weights>& plan, std::byte* slot) {
  for (const MatrixPart& part : plan.matrices) {
    const uint64_t row_bytes = RowBytes(part.tensor->type, part.tensor->dims[0]);
    std::vector<std::byte> rows(part.view.outputs * row_bytes);
    OUTRIDER_CHECK_OK(model.ReadRows(*part.tensor, part.first_row, part.view.outputs, rows));
    ASSERT_EQ(part.view.layout, WeightLayout::kPanels);
    const uint64_t panel_bytes = PanelBytes(part.view.type, part.view.inputs);
    for (uint64_t first = 0; first < part.view.outputs; first += kPanelOutputs) {
      const uint64_t count = std::min<uint64_t>(kPanelOutputs, part.view.outputs - first);
      PackPanel(part.view.type, part.view.inputs,
                std::span(rows).subspan(first * row_bytes, count * row_bytes),
                {slot + part.at + first / kPanelOutputs * panel_bytes, panel_bytes});
    }
  }
  for (const VectorPart& part : plan.vectors) {
    std::vector<std::byte> stored(part.tensor->bytes);
    std::vector<float> values(part.tensor->dims[0]);
    OUTRIDER_CHECK_OK(model.ReadRows(*part.tensor, 0, 1, stored));
    OUTRIDER_CHECK_OK(Dequantize(part.tensor->type, stored, values));
    std::copy_n(values.data() + part.first, part.count, reinterpret_cast<float*>(slot + part.at));
  }
}

// What comes in whole blocks from flash may land there.
TEST(LoadPlan, MatricesHaveWholeBlocksOfASlotToThemselves) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel("qwen2moe"), TensorType::kQ4_K, path);
  const auto model = OrDie(ModelFile::Open(path));
  const ModelSpec spec = OrDie(ModelSpec::From(*model, path));
  const LoadPlan<LayerWeights> plan = LoadPlanner(*model, spec).Layer(1);
  ASSERT_GE(plan.matrices.size(), 5u);
  for (const MatrixPart& part : plan.matrices) {
    const size_t end = part.at + RoundUp(part.bytes, kSlotAlignment);
    EXPECT_EQ(part.at % kSlotAlignment, 0u) << part.tensor->name;
    EXPECT_LE(end, plan.slot_bytes) << part.tensor->name;
    for (const MatrixPart& other : plan.matrices) {
      EXPECT_TRUE(other.at <= part.at || other.at >= end) << other.tensor->name;
    }
    for (const VectorPart& other : plan.vectors) {
      EXPECT_TRUE(other.at < part.at || other.at >= end) << other.tensor->name;
    }
  }
}

class SlotStore final : public WrappedStore {
 public:
  static constexpr size_t kSlots = 3;
  static constexpr size_t kSlotBytes = 4 << 20;

  // `resident` has rope's factors.
  SlotStore(WeightStore& resident, const ModelFile& model, const ModelSpec& spec)
      : WrappedStore(resident), model_(model), planner_(model, spec) {
    for (Slot& slot : slots_) slot.memory = OrDie(AlignedBuffer::Create(kSlotBytes));
  }

  // From the file: there is no table in memory.
  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) override {
    const ModelTensor& tensor = *model_.Find(
        table == WeightTable::kEmbeddings ? "token_embd.weight" : "position_embd.weight");
    std::vector<std::byte> stored(RowBytes(tensor.type, tensor.dims[0]));
    for (const TableRow& row : rows) {
      OUTRIDER_RETURN_IF_ERROR(model_.ReadRows(tensor, row.row, 1, stored));
      OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor.type, stored, {row.out, tensor.dims[0]}));
      ++rows_looked_up;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override {
    Slot& slot = Bring(key, planner_.Head());
    slot.head = planner_.Head().In(slot.memory.bytes().data());
    return Lease<HeadWeights>(*this, key, slot.head);
  }
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    Slot& slot = Bring(key, planner_.Layer(key.layer));
    slot.layer = planner_.Layer(key.layer).In(slot.memory.bytes().data());
    return Lease<LayerWeights>(*this, key, slot.layer);
  }
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    Slot& slot = Bring(key, planner_.Expert(key.layer, key.expert));
    slot.expert = planner_.Expert(key.layer, key.expert).In(slot.memory.bytes().data());
    return Lease<FeedForwardWeights>(*this, key, slot.expert);
  }
  uint32_t expert_leases_max() const override { return kSlots - 1; }
  void LendWaits(IdleWork work) override { work_ = std::move(work); }

  uint32_t rows_looked_up = 0;
  uint32_t waits = 0;
  uint32_t leases = 0;  // at present

 private:
  struct Slot {
    AlignedBuffer memory;
    HeadWeights head;
    LayerWeights layer;
    FeedForwardWeights expert;
    bool lent = false;
    WeightKey key;
  };

  void Release(const WeightKey& key) override {
    --leases;
    std::ranges::find_if(slots_, [&](const Slot& slot) {
      return slot.lent && slot.key == key;
    })->lent = false;
  }

  // The next slot that nobody has, in turn; read by another thread while this one waits.
  template <typename Weights>
  Slot& Bring(WeightKey key, const LoadPlan<Weights>& plan) {
    OUTRIDER_CHECK(leases < kSlots, "no more is asked for at once than this lends");
    do next_ = (next_ + 1) % kSlots;
    while (slots_[next_].lent);
    Slot& slot = slots_[next_];
    OUTRIDER_CHECK(plan.slot_bytes <= kSlotBytes, "a slot is large enough");
    std::ranges::fill(slot.memory.bytes(), std::byte{0xa5});  // nothing of the last one stays
    std::atomic<bool> landed = false;
    std::thread reader([&] {
      Load(model_, plan, slot.memory.bytes().data());
      landed = true;
    });
    if (work_) work_(landed);
    reader.join();
    slot.lent = true;
    slot.key = key;
    ++waits;
    ++leases;
    return slot;
  }

  const ModelFile& model_;
  const LoadPlanner planner_;
  Slot slots_[kSlots];
  size_t next_ = 0;
  IdleWork work_;
};

class WeightStoreTest : public testing::TestWithParam<std::string> {};

TEST_P(WeightStoreTest, AnyKeyGoesIntoAnySlot) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel(GetParam()), TensorType::kQ4_K, path);
  const std::vector<TokenId> tokens = {3, 141, 59, 26, 53, 58, 97, 93, 23, 84};
  LoadedModel resident(path);
  const auto expected = resident.Read(*resident.NewSequence(), tokens);

  SlotStore* store = nullptr;
  LoadedModel engine(path, {.wrap_weights = [&](WeightStore& weights) {
                       auto slots =
                           std::make_unique<SlotStore>(weights, *resident.model, resident.spec);
                       store = slots.get();
                       return slots;
                     }});
  uint32_t lent = 0;
  store->LendWaits([&](const std::atomic<bool>& landed) {
    ++lent;
    while (!landed) std::this_thread::yield();  // drafting, say
  });
  const auto sequence = engine.NewSequence();
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(engine.Read(*sequence, {&tokens[i], 1})[0], expected[i]) << i;
    EXPECT_EQ(store->leases, 0u) << "all were given back";
  }
  EXPECT_GE(store->waits, tokens.size() * (engine.spec.layer_count() + 1)) << "and the head";
  EXPECT_EQ(store->rows_looked_up, tokens.size() * (engine.spec.learned_positions ? 2 : 1));
  EXPECT_EQ(lent, store->waits);
}

INSTANTIATE_TEST_SUITE_P(Families, WeightStoreTest,
                         testing::Values("llama", "gpt2", "mixtral", "olmoe"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace outrider
