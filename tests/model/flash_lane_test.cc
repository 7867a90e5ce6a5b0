// Which read begins when: what is waited for before what comes next, and that before what is guessed.
#include "common/model/weights/streaming/flash_lane.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kReadBytes = 4096;

// Reads land one by one, as the test lets them.
class Flash {
 public:
  // Those that have begun, once there are so many: which read of the file.
  std::vector<uint64_t> AwaitBegun(size_t count) {
    MutexLock lock(mu_);
    while (begun_.size() < count) changed_.Wait(mu_);
    return begun_;
  }
  void LetLand(uint32_t count) {
    MutexLock lock(mu_);
    may_land_ += count;
    changed_.NotifyAll();
  }

  void OnBegun(uint64_t read) {
    MutexLock lock(mu_);
    begun_.push_back(read);
    changed_.NotifyAll();
  }
  void AwaitLanding() {
    MutexLock lock(mu_);
    while (may_land_ == 0) changed_.Wait(mu_);
    --may_land_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<uint64_t> begun_ ABSL_GUARDED_BY(mu_);
  uint32_t may_land_ ABSL_GUARDED_BY(mu_) = 0;
};

class FlashEngine final : public ReadEngine {
 public:
  explicit FlashEngine(Flash& flash) : flash_(flash) {}

  absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte>) override {
    slots_.push_back(slot);
    flash_.OnBegun(offset / kReadBytes);
    return absl::OkStatus();
  }
  RawRead Wait() override {
    flash_.AwaitLanding();
    const uint32_t slot = slots_.front();
    slots_.pop_front();
    return {.slot = slot, .result = kReadBytes};
  }

 private:
  Flash& flash_;
  std::deque<uint32_t> slots_;
};

class FlashLaneTest : public ::testing::Test {
 protected:
  FlashLaneTest() { Create(4); }

  void Create(uint32_t reads_in_flight) {
    std::vector<std::unique_ptr<DirectFile>> files;
    files.push_back(std::make_unique<DirectFile>(
        DirectFile::Source{
            .path = "model.gguf", .size = 100 * kReadBytes, .alignment = 4096, .backend = "a test"},
        reads_in_flight, std::make_unique<FlashEngine>(flash_)));
    lane_ =
        *FlashLane::Create(std::move(files), reads_in_flight, kReadBytes,
                           [](uint64_t, const absl::Status& status) { OUTRIDER_CHECK_OK(status); });
  }

  // One row of one tensor each.
  std::vector<FlashRead> Reads(uint64_t first, uint64_t count) {
    std::vector<FlashRead> reads;
    for (uint64_t i = first; i < first + count; ++i) {
      reads.push_back(
          {.file = 0,
           .extent = {.offset = i * kReadBytes, .length = kReadBytes, .skip = 0},
           .part = {.tensor = &tensor_, .first_row = 0, .view = {}, .at = 0, .bytes = 0},
           .landing = Landing::kCopied,
           .bytes = kReadBytes,
           .at = 0});
    }
    return reads;
  }

  Flash flash_;
  ModelTensor tensor_ = {.name = "a tensor",
                         .type = TensorType::kF32,
                         .dims = {kReadBytes / 4},
                         .bytes = kReadBytes,
                         .place = {}};
  const std::vector<FlashRead> guess_ = Reads(0, 4), soon_ = Reads(10, 4), now_ = Reads(20, 2);
  std::vector<std::byte> slot_ = std::vector<std::byte>(kReadBytes);
  std::unique_ptr<FlashLane> lane_;
};

TEST(FlashLane, StagingIsWholeLargePagesOrLessThanOne) {
  constexpr uint64_t kKiB = 1024;
  EXPECT_EQ(FlashLane::StagingBytes(100 * kKiB, 4), 400 * kKiB);
  EXPECT_EQ(FlashLane::StagingBytes(500 * kKiB, 16), 8192 * kKiB);
  EXPECT_EQ(FlashLane::StagingBytes(512 * kKiB, 16), 8192 * kKiB);
}

TEST_F(FlashLaneTest, GuessesLeaveHalfOfTheBuffersAndGoLast) {
  lane_->Begin({.id = 1, .urgency = Urgency::kGuess, .reads = guess_, .slot = slot_.data()});
  EXPECT_THAT(flash_.AwaitBegun(2), ElementsAre(0, 1));
  lane_->Begin({.id = 2, .urgency = Urgency::kSoon, .reads = soon_, .slot = slot_.data()});
  flash_.LetLand(1);  // three are free, and the two that were are heard of now
  EXPECT_THAT(flash_.AwaitBegun(5), ElementsAre(0, 1, 10, 11, 12));
  lane_->Begin({.id = 3, .urgency = Urgency::kNow, .reads = now_, .slot = slot_.data()});
  flash_.LetLand(1);
  flash_.AwaitBegun(6);
  flash_.LetLand(1);
  EXPECT_THAT(flash_.AwaitBegun(7), ElementsAre(0, 1, 10, 11, 12, 20, 21));
  flash_.LetLand(3);
  EXPECT_THAT(flash_.AwaitBegun(10), ElementsAre(0, 1, 10, 11, 12, 20, 21, 13, 2, 3));
  flash_.LetLand(4);
}

TEST_F(FlashLaneTest, AGuessThatWasRightIsHurried) {
  lane_->Begin({.id = 1, .urgency = Urgency::kGuess, .reads = guess_, .slot = slot_.data()});
  flash_.AwaitBegun(2);
  lane_->Begin({.id = 2, .urgency = Urgency::kSoon, .reads = soon_, .slot = slot_.data()});
  lane_->Hurry(1);
  lane_->Hurry(77);  // has been filled long ago
  flash_.LetLand(1);
  EXPECT_THAT(flash_.AwaitBegun(5), ElementsAre(0, 1, 2, 3, 10));
  flash_.LetLand(7);
}

TEST_F(FlashLaneTest, OneBufferIsEnoughForManyReads) {
  Create(1);
  flash_.LetLand(8);
  lane_->Begin({.id = 1, .reads = soon_, .slot = slot_.data()});
  lane_->Begin({.id = 2, .urgency = Urgency::kGuess, .reads = guess_, .slot = slot_.data()});
  EXPECT_THAT(flash_.AwaitBegun(8), ElementsAre(10, 11, 12, 13, 0, 1, 2, 3));
}

}  // namespace
}  // namespace outrider
