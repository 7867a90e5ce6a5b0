// The sixteen lanes that a sum over a row has (kernels/NUMERICS.md, section 2), folded to one
// float.
#pragma once

#include <cstdint>

#include "common/cuda/block/arithmetic.h"

namespace outrider::gpu {

inline constexpr uint32_t kSumLanes = 16;

OUTRIDER_HD float FoldLanes(float (&sums)[kSumLanes]) {
  for (uint32_t width = kSumLanes / 2; width > 0; width /= 2) {
    for (uint32_t lane = 0; lane < width; ++lane) sums[lane] = sums[lane] + sums[lane + width];
  }
  return sums[0];
}

// Any thread, after a Sync(): what the sixteen lanes in shared memory come to.
template <typename Shared>
OUTRIDER_HD float FoldShared(const Shared& lanes, uint32_t thread) {
  float sums[kSumLanes];
  for (uint32_t lane = 0; lane < kSumLanes; ++lane) sums[lane] = lanes.Get(thread, lane);
  return FoldLanes(sums);
}

}  // namespace outrider::gpu
