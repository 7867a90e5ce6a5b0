#include "common/base/clock.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(RealClock, NeverRunsBackwardsAndSleepsLongEnough) {
  Clock& clock = RealClock();
  const MonotonicTime before = clock.Now();
  clock.SleepFor(milliseconds(5));
  const MonotonicTime after = clock.Now();
  EXPECT_GE(after - before, milliseconds(5));
  clock.SleepUntil(before);
  clock.SleepFor(Duration(-1));
  EXPECT_GE(clock.Now(), after);
}

TEST(FakeClock, StandsStillUntilAdvanced) {
  FakeClock clock;
  const MonotonicTime start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(seconds(3));
  EXPECT_EQ(clock.Now() - start, seconds(3));
}

TEST(FakeClock, DeadlinesThatHaveComeAreNotWaitedFor) {
  FakeClock clock;
  clock.SleepUntil(clock.Now());
  clock.SleepFor(seconds(-1));
}

TEST(FakeClock, WakesThoseWhoseDeadlineHasComeAndNoOthers) {
  FakeClock clock;
  std::atomic<bool> short_done = false;
  std::atomic<bool> long_done = false;
  std::thread short_sleeper([&] {
    clock.SleepFor(minutes(1));
    short_done = true;
  });
  std::thread long_sleeper([&] {
    clock.SleepFor(hours(1));
    long_done = true;
  });
  clock.AwaitWaiters(2);
  clock.Advance(seconds(59));
  EXPECT_FALSE(short_done);
  clock.Advance(seconds(1));
  short_sleeper.join();
  EXPECT_TRUE(short_done);
  EXPECT_FALSE(long_done);
  clock.Advance(hours(1));
  long_sleeper.join();
  EXPECT_TRUE(long_done);
}

TEST(FakeClock, ANotificationEndsTheWaitBeforeItsDeadline) {
  FakeClock clock;
  Mutex mu;
  CondVar changed;
  bool ready = false;
  bool in_time = false;
  std::thread waiter([&] {
    MutexLock lock(mu);
    while (!ready) in_time = clock.WaitUntil(mu, changed, clock.Now() + hours(1));
  });
  clock.AwaitWaiters(1);
  {
    MutexLock lock(mu);
    ready = true;
  }
  changed.NotifyAll();
  waiter.join();
  EXPECT_TRUE(in_time);
}

// Sleepers come and go, mutex, condition variable and all, while time passes: whoever is late in
// letting go of a sleeper's memory is caught by the sanitizers, whoever forgets one by the timeout.
TEST(FakeClock, NoSleeperIsForgottenHoweverItRaces) {
  FakeClock clock;
  constexpr int kSleepers = 4;
  std::atomic<int> running = kSleepers;
  std::vector<std::thread> sleepers;
  for (int s = 0; s < kSleepers; ++s) {
    sleepers.emplace_back([&clock, &running, s] {
      for (int nap = 0; nap < 500; ++nap) clock.SleepFor(milliseconds(1 + (s + nap) % 3));
      running.fetch_sub(1);
    });
  }
  while (running.load() > 0) clock.Advance(milliseconds(1));
  for (std::thread& sleeper : sleepers) sleeper.join();
}

}  // namespace
}  // namespace outrider
