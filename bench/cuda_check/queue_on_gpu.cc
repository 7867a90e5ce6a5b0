// What the queue of a GPU promises (common/cuda/device_queue.h) and no emulation can show: copies
// arrive and kernels beside are done while later kernels run, graphs do what was recorded, and the clock goes.
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/base/status.h"
#include "common/cuda/device_queue.h"
#include "gtest/gtest.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kLength = 4096, kRows = 16;
constexpr size_t kBytes = size_t{kRows} * kLength * sizeof(float);

// Rows that kernels add a part to: so often, so much.
class QueueOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<float> zeros(kRows * kLength), ones(kRows * kLength, 1.0f);
    queue_->Upload(stream_.data(), zeros.data(), kBytes);
    queue_->Upload(part_.data(), ones.data(), kBytes);
    OUTRIDER_CHECK_OK(queue_->Wait());
  }

  DeviceBuffer Rows() { return OrDie(DeviceBuffer::Create(*queue_, kBytes, "rows")); }
  void AddOnes(uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) queue_->Run(Sum(nullptr), kRows, 1);
  }
  // Null: nothing besides.
  gpu::NormRows Sum(float* copy) const {
    return {.stream = stream_.As<float>(),
            .part = part_.As<float>(),
            .weight = nullptr,
            .bias = nullptr,
            .out = copy,
            .which = nullptr,
            .length = kLength,
            .epsilon = 0.0f};
  }

  const std::unique_ptr<DeviceQueue> queue_ = OrDie(OpenQueue());
  DeviceBuffer stream_ = Rows(), part_ = Rows(), copy_ = Rows();
  HostBuffer here_ = OrDie(HostBuffer::Create(*queue_, kBytes, "rows on their way"));
};

TEST_F(QueueOnGpu, WhatDepartsArrivesWhileLaterKernelsRun) {
  constexpr uint32_t kLater = 20000;
  queue_->BeginRecording();
  AddOnes(500);
  ASSERT_TRUE(queue_->EndRecording(1));
  Duration until_arrival{}, until_end{};
  for (uint32_t round = 0; round < 3; ++round) {  // the last one counts
    SetUp();
    const Clock::time_point begin = Clock::now();
    queue_->Run(Sum(copy_.As<float>()), kRows, 1);
    queue_->Depart(0, here_.data(), copy_.data(), kBytes);
    for (uint32_t i = 0; i < kLater / 500; ++i) ASSERT_TRUE(queue_->Replay(1));
    OUTRIDER_CHECK_OK(queue_->AwaitArrival(0));
    until_arrival = Clock::now() - begin;
    for (uint32_t i = 0; i < kRows * kLength; ++i) ASSERT_EQ(here_.As<float>()[i], 1.0f);
    OUTRIDER_CHECK_OK(queue_->Wait());
    until_end = Clock::now() - begin;
  }
  std::printf("16 rows of 4096 were here after %.0f us, %u kernels later all was done after %.0f\n",
              1e6 * Seconds(until_arrival), kLater, 1e6 * Seconds(until_end));
  EXPECT_LT(until_arrival, until_end / 2);
}

// An exit's way: kernels beside, of what an earlier one has left, and what they make is here while
// later ones run.
TEST_F(QueueOnGpu, WhatIsDoneBesideIsHereWhileLaterKernelsRun) {
  constexpr uint32_t kLater = 20000;
  queue_->BeginRecording();
  AddOnes(500);
  ASSERT_TRUE(queue_->EndRecording(1));
  const HostBuffer there = OrDie(HostBuffer::Create(*queue_, kBytes, "rows to be fetched"));
  for (uint32_t i = 0; i < kRows * kLength; ++i) there.As<float>()[i] = 5.0f;
  const DeviceBuffer fetched = Rows();
  Duration until_arrival{}, until_end{};
  for (uint32_t round = 0; round < 3; ++round) {  // the last one counts
    SetUp();
    const Clock::time_point begin = Clock::now();
    queue_->Mark(0);
    queue_->Run(Sum(copy_.As<float>()), kRows, 1);
    queue_->BeginBeside();
    queue_->Mark(2);
    queue_->Fetch(fetched.data(), there.data(), kBytes);
    gpu::NormRows sum = Sum(nullptr);
    sum.stream = copy_.As<float>();
    sum.part = fetched.As<float>();
    for (uint32_t i = 0; i < 10; ++i) queue_->Run(sum, kRows, 1);
    queue_->Mark(3);
    queue_->Depart(0, here_.data(), copy_.data(), kBytes);
    queue_->EndBeside();
    for (uint32_t i = 0; i < kLater / 500; ++i) ASSERT_TRUE(queue_->Replay(1));
    queue_->Mark(1);
    OUTRIDER_CHECK_OK(queue_->AwaitArrival(0));
    until_arrival = Clock::now() - begin;
    for (uint32_t i = 0; i < kRows * kLength; ++i) ASSERT_EQ(here_.As<float>()[i], 51.0f);
    OUTRIDER_CHECK_OK(queue_->Wait());
    until_end = Clock::now() - begin;
  }
  std::printf("10 kernels beside took %.0f us and were here after %.0f, %u others took %.0f\n",
              1e6 * Seconds(queue_->Between(2, 3)), 1e6 * Seconds(until_arrival), kLater,
              1e6 * Seconds(queue_->Between(0, 1)));
  EXPECT_LT(until_arrival, until_end / 2);
  EXPECT_GT(queue_->Between(2, 3), Duration::zero());
}

TEST_F(QueueOnGpu, GraphsDoWhatWasRecordedEachTime) {
  queue_->BeginRecording();
  AddOnes(10);
  ASSERT_TRUE(queue_->EndRecording(7));
  EXPECT_FALSE(queue_->Replay(8));
  ASSERT_TRUE(queue_->Replay(7));
  std::vector<float> sums(kRows * kLength);
  queue_->Download(sums.data(), stream_.data(), kBytes);
  OUTRIDER_CHECK_OK(queue_->Wait());
  EXPECT_EQ(sums, std::vector<float>(sums.size(), 20.0f));
}

TEST_F(QueueOnGpu, TheClockGoesAsTheHostsDoes) {
  AddOnes(1000);
  OUTRIDER_CHECK_OK(queue_->Wait());
  const Clock::time_point begin = Clock::now();
  queue_->Mark(0);
  AddOnes(1000);
  queue_->Mark(1);
  AddOnes(1000);
  queue_->Mark(2);
  OUTRIDER_CHECK_OK(queue_->Wait());
  const Duration by_the_host = Clock::now() - begin;
  EXPECT_GT(queue_->Between(0, 1), Duration::zero());
  EXPECT_GT(queue_->Between(1, 2), Duration::zero());
  EXPECT_LT(queue_->Between(0, 2), by_the_host);
  EXPECT_GT(queue_->Between(0, 2), by_the_host / 4);
}

}  // namespace
}  // namespace outrider
