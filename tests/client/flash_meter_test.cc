// What a store counts while a target runs, of waits for flash and of experts, is what a session's costs are told, before
// its controller decides: of runs that say something of rows, and each once.
#include "client/device/flash_meter.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/speculation/policies/resting_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/speculation/hand_draft.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

// Qwen3-30B: 128 experts in each of 48 layers, of which a row uses 6.
constexpr ExpertPrice::Experts kExperts = {.count = 128 * 48, .used_count = 6 * 48};

// A target that does nothing, but fail when it is told to.
class Nothing final : public Target {
 public:
  const TargetInfo& info() const override { return info_; }
  absl::StatusOr<SequenceId> CreateSequence() override { return SequenceId{}; }
  absl::StatusOr<SequenceId> Fork(SequenceId, uint32_t) override { return SequenceId{}; }
  absl::Status Close(SequenceId) override { return absl::OkStatus(); }
  absl::StatusOr<uint32_t> Truncate(SequenceId, uint32_t length) override { return length; }
  absl::StatusOr<uint32_t> Length(SequenceId) const override { return 0U; }
  void Run(std::span<Reading>, std::span<const Pass>, std::span<PassResult> results) override {
    for (PassResult& result : results) result.status = status;
  }
  absl::Status Commit(SequenceId, const Outcome&) override { return absl::OkStatus(); }

  absl::Status status;

 private:
  const TargetInfo info_ = {};
};

class FlashMeterTest : public testing::Test {
 protected:
  // A run of passes with so many nodes each, for which the store has counted so much.
  void Run(const std::vector<uint32_t>& node_counts, uint64_t used, uint64_t expert_bytes,
           uint64_t all_bytes, int stalled_ms, bool reads_prompt = false) {
    stats_.experts.cache.hits += used / 2;
    stats_.experts.cache.misses += used - used / 2;
    stats_.experts.cache.taken_bytes += expert_bytes;
    stats_.bytes_read += all_bytes;
    stats_.stalled += std::chrono::milliseconds(stalled_ms);
    const std::vector<DraftedNode> nodes(64);
    std::vector<Pass> passes;
    for (const uint32_t count : node_counts) {
      passes.push_back({.sequence = {},
                        .nodes = std::span(nodes).first(count),
                        .chooser = nullptr,
                        .history = nullptr});
    }
    std::vector<PassResult> results(passes.size());
    std::vector<Reading> readings(reads_prompt ? 1 : 0);
    metered_.Run(readings, passes, results);
  }
  std::vector<FlashWait> Told() {
    FlashMeter::Waits waits;
    const size_t count = meter_.Tell(known_, waits);
    return {waits.begin(), waits.begin() + static_cast<ptrdiff_t>(count)};
  }

  StreamStats stats_;
  Nothing nothing_;
  FlashMeter meter_;
  MeteredTarget metered_{nothing_, [this] { return stats_; }, meter_};
  uint64_t known_ = 0;
};

TEST_F(FlashMeterTest, TellsEachPassOnceWithItsShareOfTheWait) {
  EXPECT_THAT(Told(), ElementsAre());
  Run({3}, 746, 600, 800, 400);
  Run({0}, 288, 0, 200, 100);
  EXPECT_THAT(Told(), ElementsAre(FlashWait{4, 746, 300}, FlashWait{1, 288, 0}));
  EXPECT_THAT(Told(), ElementsAre());
  Run({1}, 460, 100, 100, 50);
  EXPECT_THAT(Told(), ElementsAre(FlashWait{2, 460, 50}));
}

TEST_F(FlashMeterTest, TellsTheWholeWaitOfWhatHasNoExperts) {
  Run({23}, 0, 0, 800, 150);
  EXPECT_THAT(Told(), ElementsAre(FlashWait{24, 0, 150}));
}

TEST_F(FlashMeterTest, LeavesOutWhatSaysNothingOfTheRowsOfAPass) {
  Run({}, 5000, 4000, 4000, 3000, /*reads_prompt=*/true);
  Run({3}, 5000, 4000, 4000, 3000, /*reads_prompt=*/true);
  Run({3, 3}, 1200, 900, 900, 500);
  nothing_.status = FailedPrecondition("a read failed");
  Run({3}, 10, 10, 10, 5);
  nothing_.status = absl::OkStatus();
  EXPECT_THAT(Told(), ElementsAre());
  Run({3}, 746, 600, 600, 400);  // and nothing of what those before it took
  EXPECT_THAT(Told(), ElementsAre(FlashWait{4, 746, 400}));
}

TEST_F(FlashMeterTest, KeepsTheNewest) {
  for (uint64_t used = 1; used <= FlashMeter::kKept + 2; ++used) Run({0}, used, 1, 1, 1);
  const std::vector<FlashWait> told = Told();
  ASSERT_EQ(told.size(), FlashMeter::kKept);
  EXPECT_EQ(told.front().expert_count, 3u);
  EXPECT_EQ(told.back().expert_count, FlashMeter::kKept + 2);
}

// Sees what a row costs when it decides.
class Looking final : public Controller {
 public:
  const Course& course() const override { return course_; }
  void Decided(const DraftView& draft) override { row_ms = draft.costs.row_ms(); }

  std::optional<double> row_ms;

 private:
  RestingPolicy policy_;
  const Course course_ = {.growth = &policy_};
};

TEST_F(FlashMeterTest, CostsAreToldBeforeTheControllerDecides) {
  HandDraft draft({.experts = kExperts});
  auto owned = std::make_unique<Looking>();
  const Looking& looking = *owned;
  MeteredController controller(std::move(owned), meter_, draft.costs);
  EXPECT_EQ(&controller.course(), &looking.course());
  controller.Decided(draft.View());
  EXPECT_EQ(looking.row_ms, std::nullopt);
  Run({3}, 746, 600, 600, 2300);
  draft.costs.MeasuredPass({3, 1}, 2400);
  controller.Decided(draft.View());
  // Four rows have used 2.59 times what one does, and waited 2300 ms for that: the last of them a sixth, about.
  EXPECT_NEAR(looking.row_ms.value(), 2300.0 / 6, 60);
}

TEST_F(FlashMeterTest, CostsAreToldWhatFlashHides) {
  HandDraft draft;
  MeteredController controller(std::make_unique<Looking>(), meter_, draft.costs);
  draft.costs.MeasuredPass({23, 1}, 600);
  Run({23}, 0, 0, 800, 600 - 306);
  controller.Decided(draft.View());
  EXPECT_EQ(draft.costs.row_ms(32), 0);
  EXPECT_NEAR(draft.costs.row_ms(64).value(), 306.0 / 24 / 0.85, 1e-9);
}

}  // namespace
}  // namespace outrider
