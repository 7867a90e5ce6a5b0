// Asks what time it is: of the machine's monotonic clock, or of one that stands still until a test
// lets time pass.
//
//   FakeClock clock;
//   TargetRunner runner(target, clock);        // to it, runs take no time at all
//   clock.Advance(std::chrono::hours(1));
//
// Threads: any may call anything.
#pragma once

#include <atomic>

#include "common/base/monotonic_time.h"

namespace outrider {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;
};

const Clock& RealClock();

class FakeClock final : public Clock {
 public:
  MonotonicTime Now() const override { return now_; }
  void Advance(Duration duration);

 private:
  // One hour, so that a deadline in the past is still a positive number.
  std::atomic<MonotonicTime> now_ = MonotonicTime(std::chrono::hours(1));
};

}  // namespace outrider
