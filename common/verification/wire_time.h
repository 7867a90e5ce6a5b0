// Times as messages carry them: whole numbers, as large as fits.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "common/base/monotonic_time.h"

namespace outrider {

template <typename Unit>
uint32_t WireTime(Duration time) {
  const auto count = std::chrono::duration_cast<Unit>(time).count();
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::clamp<int64_t>(count, 0, kMost));
}

inline uint32_t WireMicroseconds(Duration time) {
  return WireTime<std::chrono::microseconds>(time);
}
inline uint32_t WireMilliseconds(Duration time) {
  return WireTime<std::chrono::milliseconds>(time);
}

}  // namespace outrider
