// What becomes of a flash engine when somebody lowers the limit of its control group while it runs.
#include "client/device/budget_watch.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/flash_engine.h"
#include "common/kernels/isa.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPlanned = 600 * kMiB;
constexpr uint64_t kLeast = 500 * kMiB;

// All layers of a small model are pinned; the limit is as the test says.
class BudgetWatchTest : public testing::Test {
 protected:
  BudgetWatchTest() {
    Hyperparameters shape = SmallModel("llama");
    shape.block_count = 6;
    for (auto* const per_block : {&shape.head_count, &shape.head_count_kv}) {
      per_block->assign(shape.block_count, per_block->at(0));
    }
    const std::string path = dir_.File("model.gguf");
    WriteRandomModel(shape, TensorType::kQ8_0, path);
    flash_ = OrDie(LoadFlashEngine(OrDie(ModelFile::Open(path)), path, {.row_count_max = 8},
                                   {.slot_count = 2, .pinned_layer_count = shape.block_count},
                                   KernelsFor(BestIsa()), *pool_, nullptr));
    sequence_ = OrDie(flash_.engine->Open());
    base_bytes_ = flash_.weights->bytes_per_pass();
    watch_.emplace(
        MemoryPlan{.least_bytes = kLeast, .planned_bytes = kPlanned}, flash_.weights,
        [this] {
          const uint64_t limit = limit_;
          ++looks_;
          return limit == 0 ? std::nullopt : std::optional(limit);
        },
        std::chrono::milliseconds(5));
  }

  // Returns when it has certainly been looked at.
  void SetLimit(uint64_t limit) {
    limit_ = limit;
    const int before = looks_;
    const MonotonicTime end = RealClock().Now() + std::chrono::seconds(20);
    // The look that is on may have seen the old one, and what the next one does may not be done.
    while (looks_ < before + 3) {
      ASSERT_LT(RealClock().Now(), end) << "nobody looks";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  absl::Status Run() {
    OUTRIDER_CHECK_OK(flash_.engine->Reserve(sequence_, 1, 0));
    const std::vector<TokenId> next = {7};
    const RunPart part = {.sequence = sequence_, .chain = next};
    std::vector<float> logits(flash_.engine->info().vocabulary_size);
    const LogitsOfRow asked = {0, logits};
    EngineRun run = {.parts = {&part, 1}};
    run.logits = {&asked, 1};
    return flash_.engine->Run(run);
  }
  // What a pass reads that it did not read before.
  uint64_t MoreBytes() {
    EXPECT_TRUE(Run().ok());
    return flash_.weights->bytes_per_pass() - base_bytes_;
  }

 private:
  const ScratchDir dir_;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(1));
  FlashEngine flash_;
  SequenceId sequence_ = {};
  uint64_t base_bytes_ = 0;
  std::atomic<uint64_t> limit_ = 0;  // 0: there is none
  std::atomic<int> looks_ = 0;
  std::optional<BudgetWatch> watch_;
};

TEST_F(BudgetWatchTest, WhereThePlanHasItsRoomNothingIsGivenUp) {
  for (const uint64_t limit : {uint64_t{0}, kPlanned, 2 * kPlanned}) {
    SetLimit(limit);
    EXPECT_EQ(MoreBytes(), 0u) << limit;
  }
}

TEST_F(BudgetWatchTest, ALowerLimitIsPaidForOnce) {
  SetLimit(kPlanned - 1);
  const uint64_t first = MoreBytes();
  EXPECT_GT(first, 0u);
  SetLimit(kPlanned - 1);
  EXPECT_EQ(MoreBytes(), first);
  SetLimit(kPlanned);  // what is given up stays so
  EXPECT_EQ(MoreBytes(), first);
  SetLimit(kPlanned - 2);
  const uint64_t second = MoreBytes();
  EXPECT_GT(second, first);
  SetLimit(kLeast);
  EXPECT_GT(MoreBytes(), second);
}

TEST_F(BudgetWatchTest, BelowTheLeastRunsFailWithASentence) {
  SetLimit(kLeast - 1);
  const absl::Status refused = Run();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(refused), HasSubstr("is now 499MiB, and the least that works is 500MiB"));
}

}  // namespace
}  // namespace outrider
