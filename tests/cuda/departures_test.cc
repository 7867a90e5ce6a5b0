// States are seen in the order of their layers, each once it has arrived and no later than need be:
// over a device that says itself when it would be wrong.
#include "common/cuda/departures.h"

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using testing::ElementsAre;

// What has left by which slot, and what of it has arrived: events fire when they are waited for.
class FakeDevice {
 public:
  explicit FakeDevice(uint32_t slot_count) : slots_(slot_count) {}

  Departures::Ends Ends() {
    return {.await = [this](uint32_t slot) { return Await(slot); },
            .see = [this](uint32_t layer, uint32_t slot) { See(layer, slot); }};
  }

  void Send(uint32_t layer, uint32_t slot) {
    EXPECT_LT(slot, slots_.size());
    EXPECT_FALSE(slots_[slot].layer.has_value()) << "sent over what nobody has seen";
    slots_[slot] = {.layer = layer};
  }
  void FailAt(uint32_t layer) { fails_at_ = layer; }
  void ForgetAll() { slots_.assign(slots_.size(), {}); }

  const std::vector<uint32_t>& seen() const { return seen_; }
  uint32_t await_count() const { return await_count_; }

 private:
  struct Slot {
    std::optional<uint32_t> layer = {};
    bool has_arrived = false;
  };

  absl::Status Await(uint32_t slot) {
    ++await_count_;
    EXPECT_TRUE(slots_[slot].layer.has_value()) << "awaited what has not left";
    EXPECT_FALSE(slots_[slot].has_arrived) << "awaited twice";
    // The device need not have got any further than this before what has arrived is seen.
    for (const Slot& other : slots_) EXPECT_FALSE(other.has_arrived);
    if (slots_[slot].layer == fails_at_) return absl::UnavailableError("the device is gone");
    slots_[slot].has_arrived = true;
    return absl::OkStatus();
  }
  void See(uint32_t layer, uint32_t slot) {
    EXPECT_TRUE(slots_[slot].has_arrived) << "seen before it has arrived";
    EXPECT_EQ(slots_[slot].layer, layer);
    slots_[slot] = {};
    seen_.push_back(layer);
  }

  std::vector<Slot> slots_;
  std::vector<uint32_t> seen_;
  uint32_t await_count_ = 0;
  std::optional<uint32_t> fails_at_;
};

// Of so many slots each, run after run.
class DepartingRuns {
 public:
  explicit DepartingRuns(uint32_t slot_count) : device_(slot_count), departures_(device_.Ends()) {
    departures_.SetSlotCount(slot_count);
  }

  // A run whose states are asked to depart.
  void Send(const std::vector<uint32_t>& layers) {
    departures_.Begin();
    for (const uint32_t layer : layers) OUTRIDER_CHECK_OK(SendNext(layer));
  }
  absl::Status SendNext(uint32_t layer) {
    OUTRIDER_ASSIGN_OR_RETURN(const uint32_t slot, departures_.NextSlot(layer));
    device_.Send(layer, slot);
    return absl::OkStatus();
  }
  absl::Status SeeAll() { return departures_.SeeAll(); }

  FakeDevice& device() { return device_; }

 private:
  FakeDevice device_;
  Departures departures_;
};

TEST(Departures, AreSeenLayerByLayerWhateverRoomThereIs) {
  std::mt19937 random(1);
  for (uint32_t slot_count = 1; slot_count <= 6; ++slot_count) {
    DepartingRuns runs(slot_count);
    std::vector<uint32_t> all;
    for (uint32_t run = 0; run < 50; ++run) {
      std::vector<uint32_t> layers;
      for (uint32_t layer = 0; layer < 12; ++layer) {
        if (random() % 3 == 0) layers.push_back(layer);
      }
      runs.Send(layers);
      OUTRIDER_CHECK_OK(runs.SeeAll());
      all.insert(all.end(), layers.begin(), layers.end());
      ASSERT_EQ(runs.device().seen(), all) << slot_count << " slots, run " << run;
    }
  }
}

TEST(Departures, WithRoomForAllNothingIsAwaitedUntilAllIsAskedFor) {
  DepartingRuns runs(3);
  runs.Send({4, 9, 20});
  EXPECT_EQ(runs.device().await_count(), 0u);
  OUTRIDER_CHECK_OK(runs.SeeAll());
  EXPECT_EQ(runs.device().await_count(), 3u);
}

TEST(Departures, WithLessOnlyTheOldestIsAwaited) {
  DepartingRuns runs(2);
  runs.Send({1, 2, 3});
  EXPECT_THAT(runs.device().seen(), ElementsAre(1));
}

TEST(Departures, WhatFailsIsTheLastOfItsRun) {
  DepartingRuns runs(3);
  runs.Send({0, 1, 2});
  runs.device().FailAt(1);
  EXPECT_EQ(runs.SeeAll().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(runs.device().seen(), ElementsAre(0));
  EXPECT_TRUE(runs.SeeAll().ok());
  EXPECT_EQ(runs.device().await_count(), 2u);

  runs.device().ForgetAll();
  runs.Send({5, 6});
  OUTRIDER_CHECK_OK(runs.SeeAll());
  EXPECT_THAT(runs.device().seen(), ElementsAre(0, 5, 6));
}

// The host would have to know of the failure before it asks for more.
TEST(Departures, AFailureIsToldToWhoWantsTheSlot) {
  DepartingRuns runs(1);
  runs.Send({0});
  runs.device().FailAt(0);
  EXPECT_EQ(runs.SendNext(1).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace outrider
