// Halves that lie side by side in global memory, in one load where lengths and addresses allow.
#pragma once

#include <cstdint>

#include "common/cuda/block/arithmetic.h"

namespace outrider::gpu {

struct alignas(8) FourHalves {
  static constexpr uint32_t kCount = 4;
  uint32_t dwords[2];
};

struct alignas(16) EightHalves {
  static constexpr uint32_t kCount = 8;
  uint32_t dwords[4];
};

template <typename Halves>
OUTRIDER_HD float WidenAt(const Halves& halves, uint32_t i) {
  return WidenHalf(static_cast<uint16_t>(halves.dwords[i / 2] >> 16 * (i % 2)));
}

// Of memory that nobody writes to while the kernel runs. Where an address comes from memory itself a
// compiler cannot know that it is a global one, and a load that finds out takes longer.
OUTRIDER_HD FourHalves LoadWhole(const uint16_t* from, FourHalves) {
#ifdef __CUDA_ARCH__
  const uint2 read = __ldg(reinterpret_cast<const uint2*>(from));
  return {{read.x, read.y}};
#else
  return *reinterpret_cast<const FourHalves*>(from);
#endif
}

OUTRIDER_HD EightHalves LoadWhole(const uint16_t* from, EightHalves) {
#ifdef __CUDA_ARCH__
  const uint4 read = __ldg(reinterpret_cast<const uint4*>(from));
  return {{read.x, read.y, read.z, read.w}};
#else
  return *reinterpret_cast<const EightHalves*>(from);
#endif
}

// `count` of them are there, where they are not whole: the others are +0.
template <typename Halves, bool kWhole>
OUTRIDER_HD Halves LoadHalves(const uint16_t* from, uint32_t count) {
  Halves halves = {};
  if constexpr (kWhole) {
    halves = LoadWhole(from, halves);
  } else {
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < Halves::kCount; ++i) {
      if (i < count) halves.dwords[i / 2] |= uint32_t{from[i]} << 16 * (i % 2);
    }
  }
  return halves;
}

}  // namespace outrider::gpu
