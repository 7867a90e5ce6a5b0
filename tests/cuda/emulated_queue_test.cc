// What is done beside other kernels (common/cuda/device_queue.h), as the emulated device does it: never
// before what it waits for, and now as late as can be.
#include "common/cuda/testing/emulated_queue.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

constexpr uint32_t kLength = 8;
constexpr size_t kBytes = kLength * sizeof(float);

class Beside : public testing::Test {
 protected:
  Beside() {
    const std::vector<float> ones(kLength, 1.0f), zeros(kLength);
    queue_.Upload(part_.data(), ones.data(), kBytes);
    queue_.Upload(stream_.data(), zeros.data(), kBytes);
  }

  DeviceBuffer Row() { return OrDie(DeviceBuffer::Create(queue_, kBytes, "a row")); }
  HostBuffer RowHere() { return OrDie(HostBuffer::Create(queue_, kBytes, "a row here")); }
  // stream = stream + 1, and a copy of it.
  void AddOne(float* copy = nullptr) { Sum(part_.As<float>(), copy); }
  void Copy(float* copy) { Sum(nullptr, copy); }

  EmulatedQueue queue_;
  DeviceBuffer part_ = Row(), stream_ = Row(), copy_ = Row();
  HostBuffer here_ = RowHere(), there_ = RowHere();

 private:
  void Sum(const float* part, float* copy) {
    queue_.Run(gpu::NormRows{.stream = stream_.As<float>(),
                             .part = part,
                             .weight = nullptr,
                             .bias = nullptr,
                             .out = copy,
                             .which = nullptr,
                             .length = kLength,
                             .epsilon = 0.0f},
               1, 1);
  }
};

TEST_F(Beside, KernelsAreBehindWhatWasAskedBeforeAndBeforeWhatDepartsAfter) {
  for (uint32_t round = 1; round <= 4; ++round) {  // two early, two late
    AddOne(copy_.As<float>());
    queue_.BeginBeside();
    queue_.Run(gpu::GateRows{nullptr, copy_.As<float>(), kLength, gpu::Gate::kSilu}, 1, 1);
    queue_.Depart(0, here_.data(), copy_.data(), kBytes);
    queue_.EndBeside();
    EXPECT_EQ(queue_.waiting_count(), 1u);
    OUTRIDER_CHECK_OK(queue_.AwaitArrival(0));
    EXPECT_EQ(here_.As<float>()[kLength - 1], gpu::Silu(static_cast<float>(round)));
    EXPECT_EQ(queue_.waiting_count(), 0u);
  }
  EXPECT_EQ(queue_.beside_count(), 4u);
}

TEST_F(Beside, WhatIsAskedAfterwardsNeedNotHaveBegunAndMayBeDone) {
  std::vector<float> seen;
  std::vector<size_t> waiting;
  for (uint32_t round = 0; round < 2; ++round) {
    AddOne();
    queue_.BeginBeside();
    Copy(copy_.As<float>());
    queue_.Depart(0, here_.data(), copy_.data(), kBytes);
    queue_.EndBeside();
    AddOne();  // overwrites too soon what is copied beside
    OUTRIDER_CHECK_OK(queue_.AwaitArrival(0));
    seen.push_back(here_.As<float>()[0]);
    waiting.push_back(queue_.waiting_count());
    OUTRIDER_CHECK_OK(queue_.Wait());
  }
  EXPECT_EQ(seen, std::vector<float>({1, 4}));
  EXPECT_EQ(waiting, std::vector<size_t>({1, 0}));
}

TEST_F(Beside, WhatIsFetchedIsReadWhenItIsItsTurn) {
  there_.As<float>()[0] = 5;
  queue_.BeginBeside();
  queue_.Fetch(copy_.data(), there_.data(), kBytes);
  queue_.Depart(0, here_.data(), copy_.data(), kBytes);
  queue_.EndBeside();
  there_.As<float>()[0] = 6;  // too soon
  OUTRIDER_CHECK_OK(queue_.AwaitArrival(0));
  EXPECT_EQ(here_.As<float>()[0], 6);
}

TEST_F(Beside, TimeIsItsOwn) {
  queue_.Mark(0);
  AddOne();
  queue_.BeginBeside();
  queue_.Mark(10);
  Copy(copy_.As<float>());
  Copy(copy_.As<float>());
  queue_.Mark(11);
  queue_.EndBeside();
  queue_.Mark(1);
  OUTRIDER_CHECK_OK(queue_.Wait());
  EXPECT_EQ(queue_.Between(0, 1), std::chrono::microseconds(1));
  EXPECT_EQ(queue_.Between(10, 11), std::chrono::microseconds(2));
}

}  // namespace
}  // namespace outrider
