#include "common/speculation/costs/growth_due.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A session in which nothing varies: roots are dry, growth answers them after `delay`, one batch a
// millisecond, and passes take `pass`.
class Growing {
 public:
  Growing(Duration delay, Duration pass) : delay_(delay), pass_(pass) {}

  // The root's own answer comes while it is waited for, and a pass over it commits `tokens`.
  void Run(uint32_t tokens) {
    due_.RootKnown(verdict_, 0, pass_seconds(), now_);
    now_ += delay_;
    for (int batch = 1; batch <= 3; ++batch) {
      due_.Grown(verdict_, batch, now_);
      now_ += milliseconds(1);
    }
    End(tokens);
  }

  // A pass begins at once, and nothing comes.
  void GoAlone() {
    due_.RootKnown(verdict_, 0, pass_seconds(), now_);
    End(1);
  }

  void End(uint32_t tokens) {
    now_ += pass_;
    due_.Yielded(tokens);
    ++verdict_;
  }

  // How long a root that promises so much, known now, keeps its pass waiting.
  Duration Waits(double promise = 0) {
    due_.RootKnown(verdict_, promise, pass_seconds(), now_);
    return due_.BeginAt() - now_;
  }

  static Growing Seasoned(Duration delay, Duration pass, uint32_t tokens) {
    Growing session(delay, pass);
    for (int i = 0; i < 100; ++i) session.Run(tokens);
    return session;
  }

  GrowthDue& due() { return due_; }
  uint32_t verdict() const { return verdict_; }
  MonotonicTime now() const { return now_; }
  void Pass(Duration time) { now_ += time; }

 private:
  double pass_seconds() const { return std::chrono::duration<double>(pass_).count(); }

  Duration delay_;
  Duration pass_;
  GrowthDue due_;
  uint32_t verdict_ = 1;
  MonotonicTime now_{std::chrono::seconds(5)};
};

constexpr Duration kLate = milliseconds(1);  // a batch
constexpr double kNearly = 1e-6;             // seconds

double Seconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

TEST(GrowthDue, NothingIsWaitedForThatHasNeverCome) {
  Growing session(milliseconds(1), milliseconds(50));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(session.Waits(), Duration(0));
    session.GoAlone();
  }
}

// Cycles of 10 + 3 + 50 ms with 4 tokens: a token takes 15.75 ms, a pass 34 more than that.
TEST(GrowthDue, AnAnswerIsWaitedForThatTakesLessThanWhatItBringsIsWorth) {
  EXPECT_NEAR(Seconds(Growing::Seasoned(milliseconds(10), milliseconds(50), 4).Waits()),
              Seconds(milliseconds(10) + kLate), kNearly);
  EXPECT_EQ(Growing::Seasoned(milliseconds(10), milliseconds(5), 2).Waits(), Duration(0));
  EXPECT_EQ(Growing::Seasoned(milliseconds(10), milliseconds(50), 1).Waits(), Duration(0));
}

TEST(GrowthDue, ARootThatPromisesEnoughIsNotKeptWaiting) {
  Growing session = Growing::Seasoned(milliseconds(10), milliseconds(50), 4);
  EXPECT_GT(session.Waits(1), milliseconds(10));
  EXPECT_EQ(session.Waits(2.5), Duration(0));
}

// Growth takes two passes and a little: the third is not begun before it is there. It is one batch
// deeper for each of the two tokens. (A pass takes 11 ms more than a token.)
TEST(GrowthDue, ATargetThatGoesOnAloneStopsShortOfAPassThatGrowthWouldMeet) {
  Growing session = Growing::Seasoned(milliseconds(103), milliseconds(50), 4);
  EXPECT_EQ(session.Waits(), Duration(0));
  session.GoAlone();
  session.GoAlone();
  EXPECT_NEAR(Seconds(session.Waits()), Seconds(milliseconds(3 + 2) + kLate), kNearly);
}

// Cycles of 90 + 3 + 100 ms with 3 tokens: a token takes 64 ms, a pass 36 more than that. The time
// from verdict to verdict would be 129 more, and all would go on as it was.
TEST(GrowthDue, AWaitDoesNotJustifyTheNextOne) {
  EXPECT_EQ(Growing::Seasoned(milliseconds(90), milliseconds(100), 3).Waits(), Duration(0));
  EXPECT_GT(Growing::Seasoned(milliseconds(30), milliseconds(100), 3).Waits(), Duration(0));
}

TEST(GrowthDue, WhatIsAwaitedIsTheAnswerAndNotWhatWasUnderWay) {
  Growing session = Growing::Seasoned(milliseconds(10), milliseconds(50), 4);
  const Duration wait = session.Waits(0.5);
  ASSERT_GT(wait, Duration(0));
  const MonotonicTime begin = session.due().BeginAt();
  session.Pass(milliseconds(2));
  session.due().Grown(session.verdict() - 1, 0.6, session.now());
  EXPECT_EQ(session.due().BeginAt(), begin);
  session.Pass(milliseconds(8));
  session.due().Grown(session.verdict(), 0.61, session.now());  // and a batch adds next to nothing
  EXPECT_EQ(session.due().BeginAt(), session.now());
}

TEST(GrowthDue, WhileBatchesAddWhatIsWorthTheirTimeTheNextOneIsWaitedFor) {
  Growing session = Growing::Seasoned(milliseconds(10), milliseconds(50), 4);
  ASSERT_GT(session.Waits(), Duration(0));
  session.Pass(milliseconds(10));
  for (const double promise : {0.8, 1.4, 1.8}) {
    session.due().Grown(session.verdict(), promise, session.now());
    EXPECT_NEAR(Seconds(session.due().BeginAt() - session.now()), Seconds(microseconds(1500)),
                kNearly);
    session.Pass(milliseconds(1));
  }
  session.due().Grown(session.verdict(), 1.82, session.now());
  EXPECT_EQ(session.due().BeginAt(), session.now());
}

// It waits for the answer of the newest root, in vain, and each time the pass commits a token only:
// passes bring less and less, and soon there is nothing to wait for.
TEST(GrowthDue, WhoseGrowthStopsBeingOfUseIsSoonNotWaitedFor) {
  Growing session = Growing::Seasoned(milliseconds(10), milliseconds(50), 4);
  int waits = 0;
  for (int i = 0; i < 200; ++i) {
    const Duration wait = session.Waits();
    if (wait > Duration(0)) ++waits;
    session.Pass(wait);
    session.End(1);
  }
  EXPECT_GT(waits, 0);
  EXPECT_LT(waits, 60);
}

// Something that is waited for and does not come, but what does come while nobody waits keeps passes
// rich: without an account it would go on for ever.
TEST(GrowthDue, WaitsThatEarnNothingTakeASmallShareOfTheTime) {
  Growing session = Growing::Seasoned(milliseconds(5), milliseconds(20), 4);
  Duration waited(0);
  const MonotonicTime begin = session.now();
  for (int i = 0; i < 1000; ++i) {
    const Duration wait = session.Waits();
    waited += wait;
    session.Pass(wait);
    session.End(3);
  }
  EXPECT_GT(waited, Duration(0));
  EXPECT_LT(Seconds(waited), 0.05 * Seconds(session.now() - begin));
}

}  // namespace
}  // namespace outrider
