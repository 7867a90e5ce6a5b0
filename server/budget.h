// What somebody uses up of something that comes back with time.
//
//   budget.Use(bytes, /*per_second=*/65536, now);
//   if (budget.used(65536, now) > at_once) ... too much ...
//
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/monotonic_time.h"

namespace outrider {

class Budget {
 public:
  // Of a negative amount it turns out that it was not used after all; nothing is saved up by that.
  void Use(double amount, double per_second, MonotonicTime now) {
    used_ = std::max(0.0, used(per_second, now) + amount);
    since_ = now;
  }

  double used(double per_second, MonotonicTime now) const {
    const double seconds = std::chrono::duration<double>(now - since_).count();
    return std::max(0.0, used_ - seconds * per_second);
  }

 private:
  double used_ = 0;
  MonotonicTime since_{};
};

}  // namespace outrider
