// Whether a session that waits for growth takes part in a run of others.
#include "common/verification/machine/joining.h"

#include <chrono>
#include <cstdint>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr Joining::Run kRun = {.seconds = 0.025, .row_price = 0.2};

class Session {
 public:
  explicit Session(double delay) : Session(delay, delay) {}
  Session(double delay, double lost) : delay_(delay), lost_(lost) { Root(); }

  // A dry root is waited for, and the pass that begins with growth commits so many tokens.
  void Waits(uint32_t tokens, uint32_t rows) {
    now_ += Delay() + kRunTime;
    joining_.Passed(/*grown=*/true, rows, tokens);
    Root();
  }
  // Others' runs are let pass, and no growth comes.
  void WaitsInVain() {
    joining_.LetPass();
    now_ += 2 * Delay();
    GoesAlone();
  }
  void GoesAlone() {
    joining_.GoesAlone(now_);
    now_ += kRunTime;
    joining_.Passed(/*grown=*/false, 1, 1);
    Root();
  }
  // A run of others begins just after the root has become known.
  bool Joins(const Joining::Run& run = kRun) const { return joining_.Joins(run, delay_, delay_); }
  bool JoinsWhenDueIn(double due) const { return joining_.Joins(kRun, delay_, due); }

 private:
  static constexpr Duration kRunTime = milliseconds(25);

  Duration Delay() const {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(delay_));
  }
  void Root() { joining_.RootKnown(/*is_dry=*/true, lost_, now_); }

  const double delay_;
  const double lost_;
  MonotonicTime now_{milliseconds(1000)};
  Joining joining_;
};

TEST(Joining, AGoodDraftFarAwayIsWaitedFor) {
  Session session(0.06);
  EXPECT_FALSE(session.Joins()) << "it is taken to be good until it is seen";
  for (int i = 0; i < 20; ++i) session.Waits(6, 8);
  EXPECT_FALSE(session.Joins());
}

TEST(Joining, ABadOneIsSoonNot) {
  Session session(0.06);
  int waits = 0;
  while (!session.Joins() && waits < 100) {
    session.Waits(1, 3);
    ++waits;
  }
  EXPECT_GT(waits, 0);
  EXPECT_LE(waits, 8);
}

// Growth whose nodes were not worth their rows was waited for all the same.
TEST(Joining, WhatWasWaitedForAndNotWorthARowIsKnownToBeNoGain) {
  Session session(0.06);
  for (int i = 0; i < 8; ++i) session.Waits(1, 1);
  EXPECT_TRUE(session.Joins());
}

// As a device has it that stands still every now and then.
TEST(Joining, WhatIsOftenWaitedForInVainIsWaitedForNoMore) {
  Session session(0.06);
  for (int i = 0; i < 20; ++i) session.Waits(4, 6);
  EXPECT_FALSE(session.Joins());
  for (int i = 0; i < 10; ++i) {
    session.WaitsInVain();
    session.Waits(4, 6);
  }
  EXPECT_TRUE(session.Joins());
}

TEST(Joining, WhoGoesAloneWhereNobodyElseRunsHasWaitedForNothingElse) {
  Session session(0.06);
  for (int i = 0; i < 40; ++i) {
    session.Waits(4, 6);
    session.GoesAlone();
  }
  EXPECT_FALSE(session.Joins());
}

// What is so far away takes spans that are long, and not because it was away.
TEST(Joining, ASlowTargetsWaitsAreLearnedToo) {
  Session session(2);
  EXPECT_FALSE(session.JoinsWhenDueIn(0.5));
  for (int i = 0; i < 40; ++i) session.Waits(1, 1);
  EXPECT_TRUE(session.JoinsWhenDueIn(0.5));
}

TEST(Joining, WhoIsNearMissesNoRun) {
  Session session(0.002);
  for (int i = 0; i < 20; ++i) session.Waits(3, 8);
  EXPECT_TRUE(session.Joins());
}

TEST(Joining, WhereARowCostsOthersATokenNobodyJoinsForOne) {
  Session session(0.06);
  for (int i = 0; i < 8; ++i) session.Waits(1, 1);
  EXPECT_TRUE(session.Joins({.seconds = 0.025, .row_price = 0.9}));
  EXPECT_FALSE(session.Joins({.seconds = 0.025, .row_price = 1.1}));
}

// A wait that is over when the run is costs nothing; it would begin anew.
TEST(Joining, WhoHasWaitedForLongWaitsOn) {
  Session session(0.06);
  for (int i = 0; i < 20; ++i) session.Waits(2, 4);
  EXPECT_TRUE(session.Joins());
  EXPECT_FALSE(session.JoinsWhenDueIn(0.005));
}

// Who is near loses no more by its way than by the run that begins without it.
TEST(Joining, ATryThatMissesARunIsAsSeldomAsARunIsLong) {
  Session session(/*delay=*/0.002, /*lost=*/0.025);
  int tries = 0;
  constexpr int kPasses = 2000;
  for (int i = 0; i < kPasses; ++i) {
    if (!session.Joins()) ++tries;
    session.GoesAlone();
  }
  EXPECT_GE(tries, 10);
  EXPECT_LE(tries, kPasses / 90);
}

// Waits that are tried take a small share of the time, of which a try is never far away.
TEST(Joining, WhatWasNotWaitedForIsTriedNowAndThen) {
  Session session(0.06);
  for (int i = 0; i < 8; ++i) session.Waits(1, 1);
  int tries = 0;
  constexpr int kPasses = 2000;
  for (int i = 0; i < kPasses; ++i) {
    if (!session.Joins()) {
      ++tries;
      session.Waits(1, 1);
    }
    session.GoesAlone();
  }
  EXPECT_GE(tries, 5);
  EXPECT_LE(tries * 0.06, 0.015 * kPasses * 0.025);
}

}  // namespace
}  // namespace outrider
