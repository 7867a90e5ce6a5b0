// Floats as unsigned numbers of the same order, both zeros alike, with NaN below all.
#pragma once

#include <cstdint>

#include "common/cuda/block/arithmetic.h"

namespace outrider::gpu {

OUTRIDER_HD uint32_t OrderOf(float value) {
  if (value != value) return 0;
  const uint32_t bits = BitsOf(value == 0.0f ? 0.0f : value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The number that has this order; NaN for zero.
OUTRIDER_HD float FloatOfOrder(uint32_t order) {
  return FloatOf((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

}  // namespace outrider::gpu
