// What an engine on a GPU says of its device's work: by the emulated one's clock, where a kernel
// takes a microsecond.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/cuda/testing/emulated_queue.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/engine/engine_contract.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

class GpuEngineAccount : public testing::Test {
 protected:
  // Reads so many tokens and asks for the logits of the last `logit_rows`.
  DeviceWork Read(uint32_t count, uint32_t logit_rows) {
    const SequenceId sequence = OrDie(engine_->Open());
    OUTRIDER_CHECK_OK(engine_->Reserve(sequence, count, 0));
    const Tokens tokens = RandomTokens(count, count);
    const RunPart part = {.sequence = sequence, .chain = tokens};
    EngineRun run = {.parts = {&part, 1}};
    std::vector<Logits> logits(logit_rows, Logits(engine_->info().vocabulary_size));
    std::vector<LogitsOfRow> asked;
    for (uint32_t i = 0; i < logit_rows; ++i) asked.push_back({count - logit_rows + i, logits[i]});
    run.logits = asked;
    OUTRIDER_CHECK_OK(engine_->Run(run));
    engine_->Close(sequence);
    return engine_->CollectDeviceWork().value();
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(1));
  std::unique_ptr<Engine> engine_ = [this] {
    WriteRandomModel(SmallModel("llama"), TensorType::kQ8_0, path_);
    return OrDie(
        MakeGpuEngine(path_, {.sequence_count_max = 2}, *pool_, std::make_unique<EmulatedQueue>()));
  }();
};

TEST_F(GpuEngineAccount, AShapeIsAGraphFromItsSecondRunOn) {
  const DeviceWork first = Read(5, 0);
  EXPECT_EQ(first.graph_hits, 0u);
  EXPECT_EQ(first.graph_misses, 1u);
  EXPECT_EQ(first.graph_captures, 1u);
  const DeviceWork second = Read(5, 1);
  EXPECT_EQ(second.graph_hits, 1u);
  EXPECT_EQ(second.graph_misses, 0u);
  EXPECT_EQ(second.graph_captures, 0u);
  EXPECT_EQ(Read(6, 0).graph_captures, 1u);
}

TEST_F(GpuEngineAccount, TimeIsThatOfLayersAndOfWhatIsAsked) {
  const Duration layers = Read(5, 0).time;
  EXPECT_GE(layers, std::chrono::microseconds(10 * engine_->spec().layer_count()));
  EXPECT_EQ(Read(5, 0).time, layers);
  // The final norm, its quants and the head.
  EXPECT_EQ(Read(5, 2).time, layers + std::chrono::microseconds(3));
  EXPECT_EQ(Read(5, 1).exit_time, Duration::zero());
}

TEST_F(GpuEngineAccount, WhatWasToldIsNotToldAgain) {
  Read(5, 1);
  EXPECT_EQ(engine_->CollectDeviceWork()->time, Duration::zero());
  EXPECT_EQ(engine_->CollectDeviceWork()->graph_hits, 0u);
}

}  // namespace
}  // namespace outrider
