#include "common/base/clock.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RealClock, NeverRunsBackwards) {
  const MonotonicTime before = RealClock().Now();
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_GE(RealClock().Now() - before, milliseconds(5));
}

TEST(FakeClock, StandsStillUntilAdvanced) {
  FakeClock clock;
  const MonotonicTime start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(seconds(3));
  EXPECT_EQ(clock.Now() - start, seconds(3));
}

TEST(FakeClock, WhatSeveralThreadsLetPassAddsUp) {
  FakeClock clock;
  const MonotonicTime start = clock.Now();
  const auto advance = [&] {
    for (int i = 0; i < 10'000; ++i) clock.Advance(Duration(1));
  };
  std::thread other(advance);
  advance();
  other.join();
  EXPECT_EQ(clock.Now() - start, Duration(20'000));
}

}  // namespace
}  // namespace outrider
