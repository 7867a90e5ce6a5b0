#include "common/base/time_counts.h"

#include <chrono>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(TimeCounts, OfNoneAreZero) {
  const TimeCounts times;
  EXPECT_EQ(times.count(), 0u);
  EXPECT_EQ(times.Quantile(0.5), Duration::zero());
  EXPECT_EQ(times.max(), Duration::zero());
}

TEST(TimeCounts, QuantilesAreWithinAnEighth) {
  TimeCounts times;
  for (int i = 1; i <= 1000; ++i) times.Add(microseconds(i));
  EXPECT_EQ(times.count(), 1000u);
  EXPECT_EQ(times.max(), microseconds(1000));
  for (const double share : {0.01, 0.25, 0.5, 0.9, 0.99}) {
    const auto exact = nanoseconds(static_cast<int64_t>(share * 1'000'000));
    EXPECT_GE(times.Quantile(share), exact) << share;
    EXPECT_LE(times.Quantile(share), exact + exact / 8 + nanoseconds(1)) << share;
  }
  EXPECT_EQ(times.Quantile(1), microseconds(1000));
}

TEST(TimeCounts, AreCountedByOctaves) {
  TimeCounts times;
  for (const int ns : {8, 15, 16, 1023, 1024, 2047, 2048}) times.Add(nanoseconds(ns));
  EXPECT_EQ(times.OfOctave(3), 2u);
  EXPECT_EQ(times.OfOctave(4), 1u);
  EXPECT_EQ(times.OfOctave(9), 1u);
  EXPECT_EQ(times.OfOctave(10), 2u);
  EXPECT_EQ(times.OfOctave(11), 1u);
  times.Add(Duration::max());
  EXPECT_EQ(times.OfOctave(62), 1u);
  uint64_t all = 0;
  for (size_t n = TimeCounts::kOctaveMin; n <= TimeCounts::kOctaveMax; ++n)
    all += times.OfOctave(n);
  EXPECT_EQ(all, times.count());
}

TEST(TimeCounts, TakeAnyTime) {
  TimeCounts times;
  times.Add(Duration(-5));
  times.Add(Duration(0));
  times.Add(Duration(7));
  times.Add(Duration(8));
  times.Add(Duration::max());
  EXPECT_EQ(times.count(), 5u);
  EXPECT_EQ(times.Quantile(0.4), Duration(0));
  EXPECT_EQ(times.Quantile(0.6), Duration(7));
  EXPECT_EQ(times.Quantile(0.8), Duration(8));
  EXPECT_EQ(times.Quantile(1), Duration::max());
}

TEST(TimeCounts, AddUpAndCountSeveralAtOnce) {
  TimeCounts times;
  times.Add(microseconds(1), 3);
  times.Add(microseconds(9), 0);
  TimeCounts others;
  others.Add(microseconds(4));
  times.Add(others);
  EXPECT_EQ(times.count(), 4u);
  EXPECT_EQ(times.max(), microseconds(4));
  EXPECT_LT(times.Quantile(0.75), microseconds(2));
  EXPECT_EQ(times.Quantile(0.76), microseconds(4));
}

}  // namespace
}  // namespace outrider
