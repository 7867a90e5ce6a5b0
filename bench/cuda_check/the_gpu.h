// Which GPU is checked: set by main() before anything runs on it.
#pragma once

#include <cstdint>

namespace outrider {

inline uint32_t& GpuOrdinal() {
  static uint32_t ordinal = 0;
  return ordinal;
}

}  // namespace outrider
