// What is planned is what is taken: by an engine beside its weights, and by weights that are streamed
// or not.
#include "common/engine/engine_memory.h"

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/kernels/isa.h"
#include "common/model/weights/streaming/stream_shape.h"
#include "common/model/weights/streaming/streaming_weights.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/guesses.h"
#include "tests/model/engine.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

// Of addresses, whether or not there is memory behind them yet.
uint64_t MappedBytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * PageBuffer::PageSize();
}

class PlannedMemory : public testing::TestWithParam<const char*> {
 protected:
  PlannedMemory() {
    WriteRandomModel(SmallModel(GetParam()), TensorType::kQ8_0, path_);
    model_ = OrDie(ModelFile::Open(path_));
    spec_ = OrDie(ModelSpec::From(*model_, path_));
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::unique_ptr<ModelFile> model_;
  ModelSpec spec_;
};

INSTANTIATE_TEST_SUITE_P(Families, PlannedMemory,
                         testing::Values("llama", "mistral", "qwen3", "gpt2", "mixtral", "olmoe",
                                         "gptoss"),
                         [](const auto& family) { return std::string(family.param); });

// Large enough that what the allocator keeps for itself does not matter.
TEST_P(PlannedMemory, OfAnEngineIsWhatItTakes) {
  const EngineOptions options = {
      .sequence_count_max = 40, .node_count_max = 255, .row_count_max = 4096};
  const EngineMemory planned = OrDie(CpuEngineMemory(spec_, options, 2));
  std::shared_ptr<WeightStore> weights =
      OrDie(ResidentWeights::Load(*model_, spec_, path_, *pool_, nullptr));
  const uint64_t before = MappedBytes();
  const auto engine =
      OrDie(CpuEngine::Create(spec_, weights, 0, options, KernelsFor(BestIsa()), *pool_));
  const uint64_t taken = MappedBytes() - before;
  EXPECT_GE(planned.kv_bytes + planned.scratch_bytes, taken);
  EXPECT_LE(planned.kv_bytes + planned.scratch_bytes, taken + taken / 2);
}

// Larger still: loading leaves some megabytes to the allocator, which are taken again unseen.
TEST_P(PlannedMemory, OfExitsIsWhatTheyTake) {
  const EngineOptions options = {.node_count_max = 1023, .row_count_max = 8192};
  std::shared_ptr<ResidentWeights> weights =
      OrDie(ResidentWeights::Load(*model_, spec_, path_, *pool_, nullptr));
  const auto engine = OrDie(CpuEngine::Create(spec_, weights, weights->content_hash(), options,
                                              KernelsFor(BestIsa()), *pool_));
  GuessKeeper nobody;
  const uint64_t head_bytes = ShapeOf(*model_, spec_).head_bytes;
  const uint64_t before = MappedBytes();
  // Their weights are there while they are packed.
  const TrainedExits exits =
      RandomExits(spec_, weights->content_hash(), {0, 1}, /*rank=*/256, /*strength=*/0.1f);
  OUTRIDER_CHECK_OK(engine->AttachExits(exits, "exits", {}, nobody));
  const uint64_t taken = MappedBytes() - before;
  const uint64_t planned = ExitsMemory(exits, spec_, options, head_bytes, 2);
  EXPECT_GE(planned, taken);
  EXPECT_LE(planned, taken + taken / 2);
}

TEST_P(PlannedMemory, OfResidentWeightsIsWhatTheyTake) {
  const uint64_t planned = ResidentWeights::MemoryBytes(*model_, spec_, 2);
  uint64_t in_file = 0;
  for (const ModelTensor& tensor : model_->tensors()) in_file += tensor.bytes;
  EXPECT_GE(planned, in_file);
  EXPECT_LE(planned, in_file + in_file / 2);
}

TEST_P(PlannedMemory, OfStreamedWeightsIsWhatTheyTake) {
  const StreamShape shape = ShapeOf(*model_, spec_);
  for (const uint32_t pinned : {0u, 1u, 2u}) {
    for (const bool pins_head : {true, false}) {
      SCOPED_TRACE(Concat(pinned, " pinned, head ", pins_head));
      const StreamOptions options = {
          .slot_count = 2, .pinned_layer_count = pinned, .pins_head = pins_head};
      const auto weights = OrDie(StreamingWeights::Open(*model_, spec_, path_, options, nullptr));
      EXPECT_GE(MemoryBytes(shape, options), weights->memory_bytes());
      EXPECT_LE(MemoryBytes(shape, options), weights->memory_bytes() + (uint64_t{1} << 20));
      if (shape.experts.count > 0) continue;  // the store counts what has an order
      EXPECT_LE(BytesPerPass(shape, options), weights->bytes_per_pass());
      EXPECT_GE(BytesPerPass(shape, options) * 11 / 10 + 1, weights->bytes_per_pass() * 9 / 10);
    }
  }
}

}  // namespace
}  // namespace outrider
