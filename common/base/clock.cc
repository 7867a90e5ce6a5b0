#include "common/base/clock.h"

#include <chrono>

#include "common/base/check.h"

namespace outrider {
namespace {

class MonotonicClock final : public Clock {
 public:
  MonotonicTime Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& RealClock() {
  static const MonotonicClock clock;
  return clock;
}

void FakeClock::Advance(Duration duration) {
  OUTRIDER_CHECK(duration >= Duration::zero(), "a monotonic clock does not run backwards");
  MonotonicTime now = now_;
  while (!now_.compare_exchange_weak(now, now + duration)) {
  }
}

}  // namespace outrider
