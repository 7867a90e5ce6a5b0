// How much of a block's shared memory an array takes there: pieces begin on 16 bytes.
#pragma once

#include <cstddef>

#include "common/cuda/block/arithmetic.h"

namespace outrider::gpu {

template <typename T>
OUTRIDER_HD constexpr size_t SharedBytesOf(size_t count) {
  return (count * sizeof(T) + 15) / 16 * 16;
}

}  // namespace outrider::gpu
