#include "server/dry_wait.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr MonotonicTime kStart{std::chrono::seconds(5)};
constexpr double kPass = 0.020;

// A device whose growth has always taken `delay`, with passes that have committed `yield` tokens.
DryWait Seasoned(Duration delay, uint32_t yield) {
  DryWait wait;
  for (int i = 0; i < 20; ++i) {
    wait.RootKnown(kStart);
    wait.Grown(true, kStart + delay);
    wait.Yielded(yield);
  }
  wait.RootKnown(kStart);
  return wait;
}

TEST(DryWait, GrowthThatComesSoonIsWaitedForTwiceItsTime) {
  // Worth (3 - 1) passes of 20 ms.
  EXPECT_EQ(Seasoned(milliseconds(30), 3).AloneAt(kPass), kStart + milliseconds(60));
}

TEST(DryWait, GrowthThatTakesLongerThanItsTokensDoAloneIsNotWaitedFor) {
  EXPECT_EQ(Seasoned(milliseconds(50), 3).AloneAt(kPass), kStart);
  EXPECT_EQ(Seasoned(milliseconds(1), 1).AloneAt(kPass), kStart);  // it never helps
}

TEST(DryWait, ASlowTargetWaitsWhereAFastOneWouldNot) {
  const DryWait wait = Seasoned(milliseconds(50), 3);
  EXPECT_EQ(wait.AloneAt(0.010), kStart);
  EXPECT_EQ(wait.AloneAt(0.100), kStart + milliseconds(100));
}

TEST(DryWait, ADeviceThatIsNotKnownYetIsGivenThePassItCosts) {
  DryWait wait;
  wait.RootKnown(kStart);
  EXPECT_EQ(wait.AloneAt(kPass), kStart + milliseconds(20));
  EXPECT_GT(wait.AloneAt({}), kStart);
}

TEST(DryWait, ADeviceThatNeverGrowsIsNotWaitedForAnyMore) {
  DryWait wait = Seasoned(milliseconds(10), 4);
  for (int i = 0; i < 3; ++i) wait.RootKnown(kStart);
  EXPECT_GT(wait.AloneAt(kPass), kStart);
  wait.RootKnown(kStart);
  EXPECT_EQ(wait.AloneAt(kPass), kStart);
  wait.Grown(false, kStart);  // it is back, with growth for an older root
  wait.RootKnown(kStart);
  EXPECT_GT(wait.AloneAt(kPass), kStart);
}

TEST(DryWait, OnlyTheFirstGrowthThatAnswersTellsTheDelay) {
  DryWait wait;
  wait.RootKnown(kStart);
  wait.Grown(false, kStart + milliseconds(1));  // sent before the verdict was seen
  wait.Grown(true, kStart + milliseconds(10));
  wait.Grown(true, kStart + milliseconds(100));  // more of the same
  wait.RootKnown(kStart);
  EXPECT_EQ(wait.AloneAt(kPass), kStart + milliseconds(20));
}

}  // namespace
}  // namespace outrider
