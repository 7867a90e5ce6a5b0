#include "common/base/clock.h"

#include <algorithm>
#include <chrono>

#include "common/base/check.h"

namespace outrider {
namespace {

class MonotonicClock final : public Clock {
 public:
  MonotonicTime Now() const override { return std::chrono::steady_clock::now(); }

  bool WaitUntil(Mutex& mu, CondVar& changed, MonotonicTime deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return changed.WaitUntil(mu, deadline);
  }
};

}  // namespace

Clock& RealClock() {
  static MonotonicClock clock;
  return clock;
}

void Clock::SleepUntil(MonotonicTime deadline) {
  Mutex mu;
  CondVar never_notified;
  MutexLock lock(mu);
  while (Now() < deadline) WaitUntil(mu, never_notified, deadline);
}

FakeClock::~FakeClock() {
  MutexLock lock(mu_);
  OUTRIDER_CHECK(waiters_.empty(), "a clock outlives those who wait by it");
}

MonotonicTime FakeClock::Now() const {
  MutexLock lock(mu_);
  return now_;
}

bool FakeClock::WaitUntil(Mutex& mu, CondVar& changed, MonotonicTime deadline) {
  Waiter self{.mu = &mu, .changed = &changed, .deadline = deadline};
  {
    MutexLock lock(mu_);
    if (now_ >= deadline) return false;
    waiters_.push_back(&self);
    waiters_changed_.NotifyAll();
  }
  changed.Wait(mu);

  // Advance() may be about to take `mu` for our sake, so `mu` must not be held while waiting for it
  // to let go of `self`.
  mu.Unlock();
  bool in_time;
  {
    MutexLock lock(mu_);
    while (self.being_woken) waiters_changed_.Wait(mu_);
    std::erase(waiters_, &self);
    in_time = now_ < deadline;
  }
  mu.Lock();
  return in_time;
}

void FakeClock::Advance(Duration duration) {
  OUTRIDER_CHECK(duration >= Duration::zero(), "a monotonic clock does not run backwards");
  std::vector<Waiter*> due;
  {
    MutexLock lock(mu_);
    now_ += duration;
    for (Waiter* waiter : waiters_) {
      if (waiter->deadline > now_ || waiter->being_woken) continue;
      waiter->being_woken = true;
      due.push_back(waiter);
    }
  }
  for (Waiter* waiter : due) {
    // Whoever got into waiters_ held this mutex then: once we have had it, they are in Wait().
    { MutexLock lock(*waiter->mu); }
    waiter->changed->NotifyAll();
  }
  MutexLock lock(mu_);
  for (Waiter* waiter : due) waiter->being_woken = false;
  waiters_changed_.NotifyAll();
}

void FakeClock::AwaitWaiters(size_t count) {
  MutexLock lock(mu_);
  while (WaitersAhead() < count) waiters_changed_.Wait(mu_);
}

size_t FakeClock::WaitersAhead() const {
  size_t ahead = 0;
  for (const Waiter* waiter : waiters_) ahead += waiter->deadline > now_ ? 1 : 0;
  return ahead;
}

}  // namespace outrider
