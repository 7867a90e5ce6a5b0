#include "common/verification/machine/dry_wait.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

// Nobody else is in the run.
constexpr DryWait::PassTime kPass = {0.020, 0.020};

// A session whose roots are dry and are answered after `delay`, with passes that take `pass`.
class Growing {
 public:
  explicit Growing(Duration delay, DryWait::PassTime pass = kPass) : delay_(delay), pass_(pass) {
    Root(/*is_dry=*/true);
  }

  void Root(bool is_dry) { wait_.RootKnown(verdict_, is_dry, pass_, now_); }

  // Growth for the newest root comes, and a pass with it commits so many tokens; then a dry root.
  void Run(uint32_t tokens) {
    now_ += delay_;
    wait_.Grown(verdict_, now_);
    End(/*nodes=*/8, tokens);
  }

  // A pass without any, and growth for the root of three passes ago.
  void GoAlone() {
    wait_.Grown(verdict_ - 2, now_ + milliseconds(20));
    End(/*nodes=*/0, 1);
  }

  void End(uint32_t nodes, uint32_t tokens) {
    now_ += milliseconds(20);
    wait_.Yielded(nodes > 0, tokens);
    ++verdict_;
    Root(/*is_dry=*/true);
  }

  // How long the newest root is waited for.
  Duration Waits() const { return wait_.AloneAt() - now_; }

  // The same with many runs behind it.
  static Growing Seasoned(Duration delay, uint32_t tokens, DryWait::PassTime pass = kPass) {
    Growing session(delay, pass);
    for (int i = 0; i < 300; ++i) session.Run(tokens);
    return session;
  }

  DryWait& wait() { return wait_; }
  uint32_t verdict() const { return verdict_; }
  MonotonicTime now() const { return now_; }

 private:
  Duration delay_;
  DryWait::PassTime pass_;
  DryWait wait_;
  uint32_t verdict_ = 0;
  MonotonicTime now_{std::chrono::seconds(5)};
};

// A run that spares 4 passes of 20 ms is worth those 80 ms, and as much to others as it costs them.
TEST(DryWait, WaitsTwiceTheTimeOfGrowthThatIsWorthIt) {
  const int break_even_ms = static_cast<int>(4 * 20 * (1 + DryWait::kWorthToOthers));
  const Duration little(milliseconds(break_even_ms - 5));
  EXPECT_EQ(Growing::Seasoned(little, 5).Waits(), 2 * little);
  EXPECT_EQ(Growing::Seasoned(milliseconds(break_even_ms + 5), 5).Waits(), Duration(0));
}

TEST(DryWait, DoesNotWaitForGrowthThatNeverHelps) {
  EXPECT_EQ(Growing::Seasoned(milliseconds(20), 1).Waits(), Duration(0));
}

TEST(DryWait, ASlowTargetWaitsWhereAFastOneWouldNot) {
  EXPECT_EQ(Growing::Seasoned(milliseconds(90), 5, {0.005, 0.005}).Waits(), Duration(0));
  EXPECT_EQ(Growing::Seasoned(milliseconds(90), 5, {0.050, 0.050}).Waits(), milliseconds(180));
}

TEST(DryWait, ASparedPassIsWorthLittleToOthersWhereTheyRunAnyway) {
  const Duration growth = milliseconds(4 * 20 + 20);
  EXPECT_EQ(Growing::Seasoned(growth, 5, {0.020, 0.020}).Waits(), 2 * growth);
  EXPECT_EQ(Growing::Seasoned(growth, 5, {0.020, 0.002}).Waits(), Duration(0));
}

// Three passes, of which the later two were ready at once, are one run.
TEST(DryWait, ARunIsWorthWhatAllItsPassesSpare) {
  const auto seasoned = [](bool goes_on) {
    Growing session(milliseconds(100));
    for (int i = 0; i < 300; ++i) {
      session.wait().Yielded(true, 2);
      if (!goes_on) session.Root(/*is_dry=*/true);
      session.wait().Yielded(true, 2);
      if (!goes_on) session.Root(/*is_dry=*/true);
      session.Run(2);
    }
    return session.Waits();
  };
  EXPECT_EQ(seasoned(true), milliseconds(200));
  EXPECT_EQ(seasoned(false), Duration(0));
}

// It goes on alone, and what comes is too late: all this says nothing about what a wait would gain,
// so now and then it is tried.
TEST(DryWait, TriesWaitingNowAndThenAndNoticesWhenItGains) {
  Growing session = Growing::Seasoned(milliseconds(60), 1);
  int waits = 0;
  for (int i = 0; i < 3000; ++i) {
    if (session.Waits() > Duration(0)) {
      ++waits;
      session.Run(9);  // from now on
    } else {
      session.GoAlone();
    }
  }
  EXPECT_GT(waits, 1500);

  session = Growing::Seasoned(milliseconds(60), 1);
  Duration waited{};
  const MonotonicTime begin = session.now();
  for (int i = 0; i < 1000; ++i) {
    if (session.Waits() > Duration(0)) {
      waited += milliseconds(60);
      session.Run(1);
    } else {
      session.GoAlone();
    }
  }
  EXPECT_GT(waited, Duration(0));
  EXPECT_LT(waited, (session.now() - begin) / 20);
}

TEST(DryWait, ADeviceThatIsNotKnownYetIsGivenThePassItCosts) {
  DryWait wait;
  const MonotonicTime start{std::chrono::seconds(5)};
  wait.RootKnown(0, true, kPass, start);
  EXPECT_EQ(wait.AloneAt(), start + milliseconds(20));
  wait.RootKnown(0, true, {}, start);
  EXPECT_GT(wait.AloneAt(), start);
}

TEST(DryWait, ADeviceThatNeverGrowsIsNotWaitedForAnyMore) {
  Growing session = Growing::Seasoned(milliseconds(10), 5);
  for (int i = 0; i < 3; ++i) session.End(0, 1);
  EXPECT_GT(session.Waits(), Duration(0));
  session.End(0, 1);
  EXPECT_EQ(session.Waits(), Duration(0));
  session.wait().Grown(session.verdict() - 2, session.now());  // it is back, with what is old
  session.End(0, 1);
  EXPECT_GT(session.Waits(), Duration(0));
}

// The growth of a device far away never answers the newest root; it tells the delay all the same.
TEST(DryWait, TheFirstGrowthOfThoseThatAnswerAVerdictTellsTheDelay) {
  DryWait wait;
  const MonotonicTime start{std::chrono::seconds(5)};
  for (uint32_t i = 0; i < 10; ++i) {
    wait.RootKnown(i, true, kPass, start + i * milliseconds(20));
    if (i < 3) continue;
    const MonotonicTime now = start + i * milliseconds(20);
    wait.Grown(i - 3, now + milliseconds(5));   // 65 ms after its root
    wait.Grown(i - 3, now + milliseconds(15));  // more of the same
  }
  wait.RootKnown(10, true, kPass, start);
  EXPECT_EQ(wait.AloneAt(), start + 2 * milliseconds(65));
}

}  // namespace
}  // namespace outrider
