// Points in time for deadlines and measurements: nanoseconds that never run backwards and mean
// nothing outside this process. Ask a Clock (clock.h) for the present one.
#pragma once

#include <chrono>

namespace outrider {

using Duration = std::chrono::nanoseconds;
using MonotonicTime = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace outrider
