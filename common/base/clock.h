// A clock that code asks for the time and waits by, so that tests can be the ones who let it pass.
//
// RealClock() is the machine's monotonic clock. A FakeClock stands still until a test advances it;
// that wakes those whose deadline has come, and no others, in no real time at all:
//
//   FakeClock clock;
//   std::thread sleeper([&] { clock.SleepFor(std::chrono::hours(1)); });
//   clock.AwaitWaiters(1);                 // it sleeps now
//   clock.Advance(std::chrono::hours(1));  // it wakes
//   sleeper.join();
#pragma once

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"

namespace outrider {

// Any thread may call anything.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual MonotonicTime Now() const = 0;

  // Waits on `changed`, giving up `mu` meanwhile, until it is notified or `deadline` has come.
  // False when the deadline has come. As with every condition variable, wake-ups may be spurious.
  virtual bool WaitUntil(Mutex& mu, CondVar& changed, MonotonicTime deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) = 0;

  void SleepUntil(MonotonicTime deadline);
  void SleepFor(Duration duration) { SleepUntil(Now() + duration); }
};

Clock& RealClock();

class FakeClock final : public Clock {
 public:
  // Starts at one hour, so that a deadline in the past is still a positive number.
  FakeClock() = default;
  // Nobody may be waiting any more.
  ~FakeClock() override;
  FakeClock(const FakeClock&) = delete;
  FakeClock& operator=(const FakeClock&) = delete;

  MonotonicTime Now() const override;
  bool WaitUntil(Mutex& mu, CondVar& changed, MonotonicTime deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Lets time pass and wakes those whose deadline it reached. The caller holds no mutex that
  // anybody waits with.
  void Advance(Duration duration);

  // Returns when `count` or more threads are waiting for a deadline that has not come.
  void AwaitWaiters(size_t count);

 private:
  // One call of WaitUntil(), living on its stack.
  struct Waiter {
    Mutex* mu;
    CondVar* changed;
    MonotonicTime deadline;
    bool being_woken = false;  // by Advance(), which still holds the pointers
  };

  size_t WaitersAhead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;  // taken while holding a waiter's mutex, never the other way round
  CondVar waiters_changed_;
  MonotonicTime now_ ABSL_GUARDED_BY(mu_){std::chrono::hours(1)};
  std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace outrider
