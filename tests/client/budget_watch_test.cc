// What becomes of a flash engine when somebody lowers the limit of its control group while it runs.
#include "client/device/budget_watch.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/flash_engine.h"
#include "common/kernels/isa.h"
#include "common/model/weights/streaming/stream_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kLayers = 6;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPlanned = 600 * kMiB;  // most of it for what this test does not have

// All layers of a small model are pinned; the limit is as the test says.
class BudgetWatchTest : public testing::Test {
 protected:
  void Load(const std::string& family, bool pins_head = false) {
    const std::string path = dir_.File("model.gguf");
    WriteRandomModel(SmallModel(family, kLayers), TensorType::kQ8_0, path);
    auto model = OrDie(ModelFile::Open(path));
    const StreamShape streamed = ShapeOf(*model, OrDie(ModelSpec::From(*model, path)));
    const StreamOptions options = {.slot_count = 2,
                                   .pinned_layer_count = kLayers,
                                   .pins_head = pins_head,
                                   .expert_place_count = streamed.experts.count};
    const StreamOptions least = {
        .slot_count = 2, .pins_head = false, .expert_place_count = streamed.experts.place_least};
    least_ = kPlanned - MemoryBytes(streamed, options) + MemoryBytes(streamed, least);
    flash_ =
        OrDie(LoadFlashEngine(std::move(model), path, {.sequence_count_max = 2, .row_count_max = 8},
                              options, KernelsFor(BestIsa()), *pool_, nullptr));
    sequence_ = OrDie(flash_.engine->Open());
    base_bytes_ = flash_.weights->bytes_per_pass();
    watch_.emplace(
        MemoryPlan{.least_bytes = least_, .planned_bytes = kPlanned}, flash_.weights,
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

  static std::vector<float> LogitsAfter(Engine& engine, const std::vector<TokenId>& prompt) {
    const SequenceId sequence = OrDie(engine.Open());
    const auto count = static_cast<uint32_t>(prompt.size());
    OUTRIDER_CHECK_OK(engine.Reserve(sequence, count, 0));
    const RunPart part = {.sequence = sequence, .chain = prompt};
    std::vector<float> logits(engine.info().vocabulary_size);
    const LogitsOfRow asked = {count - 1, logits};
    EngineRun run = {.parts = {&part, 1}, .logits = {&asked, 1}};
    OUTRIDER_CHECK_OK(engine.Run(run));
    engine.Close(sequence);
    return logits;
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

  const ScratchDir dir_;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(1));
  FlashEngine flash_;
  uint64_t least_ = 0;  // of the budget, for that model

 private:
  SequenceId sequence_ = {};
  uint64_t base_bytes_ = 0;
  std::atomic<uint64_t> limit_ = 0;  // 0: there is none
  std::atomic<int> looks_ = 0;
  std::optional<BudgetWatch> watch_;
};

// What is given up are whole pages: of each layer or place a part stays at either end.
constexpr uint64_t kParts = 512 << 10;

TEST_F(BudgetWatchTest, WhereThePlanHasItsRoomNothingIsGivenUp) {
  Load("llama");
  for (const uint64_t limit : {uint64_t{0}, kPlanned, 2 * kPlanned}) {
    SetLimit(limit);
    EXPECT_EQ(MoreBytes(), 0u) << limit;
  }
}

TEST_F(BudgetWatchTest, ALowerLimitIsPaidForOnce) {
  Load("llama");
  SetLimit(kPlanned - 1);
  const uint64_t first = MoreBytes();
  EXPECT_GT(first, 0u);
  SetLimit(kPlanned - 1);
  EXPECT_EQ(MoreBytes(), first);
  SetLimit(kPlanned);  // what is given up stays so
  EXPECT_EQ(MoreBytes(), first);
  SetLimit(kPlanned - 2);  // more than that was given up for the first
  EXPECT_EQ(MoreBytes(), first);
  SetLimit(least_ + kParts);
  EXPECT_GT(MoreBytes(), first);
}

TEST_F(BudgetWatchTest, OfAModelWithExpertsPlacesAreGivenUpAndThenLayers) {
  Load("qwen3moe");
  const uint32_t leases = flash_.weights->expert_leases_max();
  SetLimit(kPlanned - kMiB);
  EXPECT_EQ(MoreBytes(), 0u);
  EXPECT_LT(flash_.weights->expert_leases_max(), leases);
  SetLimit(least_ + kParts);
  EXPECT_GT(MoreBytes(), 0u);
}

// A run that has come to a layer, where something is done.
class DoneAtLayer final : public WrappedStore {
 public:
  DoneAtLayer(WeightStore& store, uint32_t layer, std::function<void()> before,
              std::function<void()> after)
      : WrappedStore(store), layer_(layer), before_(std::move(before)), after_(std::move(after)) {}

  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    if (key.layer == layer_) before_();
    absl::StatusOr<Lease<LayerWeights>> lease = WrappedStore::Acquire(key);
    if (key.layer == layer_) after_();
    return lease;
  }

 private:
  const uint32_t layer_;
  const std::function<void()> before_;
  const std::function<void()> after_;
};

TEST_F(BudgetWatchTest, ALimitThatIsLoweredInTheMiddleOfAPromptIsPaidForThere) {
  Load("llama");
  const uint64_t before = flash_.weights->bytes_per_pass();
  uint64_t there = 0;
  const auto store = std::make_shared<DoneAtLayer>(
      *flash_.weights, 3, [this] { SetLimit(least_ + kParts); },
      [&] { there = flash_.weights->bytes_per_pass(); });
  const auto engine = OrDie(CpuEngine::Create(flash_.engine->spec(), store, 0, {.row_count_max = 8},
                                              KernelsFor(BestIsa()), *pool_));
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<float> expected = LogitsAfter(*flash_.engine, prompt);
  EXPECT_EQ(LogitsAfter(*engine, prompt), expected);
  EXPECT_GT(there, before);
}

TEST_F(BudgetWatchTest, BelowTheLeastRunsFailWithASentenceUntilTheLimitIsRaised) {
  Load("llama");
  SetLimit(least_ - kMiB);
  for (int run = 0; run < 2; ++run) {
    const absl::Status refused = Run();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(Message(refused),
                HasSubstr(Concat("is now ", least_ / kMiB - 1, "MiB, and the least that works is ",
                                 (least_ + kMiB - 1) / kMiB, "MiB")));
  }
  SetLimit(kPlanned);
  EXPECT_TRUE(Run().ok());
}

// The least that works is without the head, which stays once it is pinned.
TEST_F(BudgetWatchTest, WhatCannotBeGivenUpIsASentenceUntilTheLimitIsRaised) {
  Load("llama", /*pins_head=*/true);
  SetLimit(least_);
  EXPECT_THAT(Message(Run()),
              HasSubstr("of the 600MiB that were planned so much cannot be given up"));
  SetLimit(0);
  EXPECT_TRUE(Run().ok());
}

}  // namespace
}  // namespace outrider
