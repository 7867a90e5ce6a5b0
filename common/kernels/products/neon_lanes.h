// What the NEON product kernels have in common. A panel's sixteen outputs are four registers of
// four here, its groups 0..3. Static, as in product_loop.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "common/kernels/products/product_loop.h"

namespace outrider {

inline constexpr int kGroups = 4;
inline constexpr size_t kFetchAhead = 2048;

// Group g of a line.
static inline uint8x16_t LoadLine(const std::byte* line, int g) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(line) + 16 * g);
}

// Four of sixteen f16 numbers as floats.
static inline float32x4_t LoadHalves(const std::byte* halves, int g) {
  return vcvt_f32_f16(
      vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(halves) + 4 * g)));
}

// The same of bfloat16 numbers.
static inline float32x4_t LoadBfloat16(const std::byte* halves, int g) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(halves) + 4 * g);
  return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(bits), 16));
}

// Asm, because GCC sees that a function of nothing but prefetches changes nothing, and drops the
// call.
static inline void Fetch(const std::byte* at) {
  asm volatile("prfm pldl1keep, %0" : : "Q"(*at));
}

template <int kLines>
static inline void FetchLines(const std::byte* at) {
  for (int i = 0; i < kLines; ++i) Fetch(at + i * kLineBytes);
}

// The results of kRows rows of one panel.
template <int kRows>
static inline void StoreResults(const float32x4_t (&y)[kRows][kGroups], const ProductTile& tile) {
  for (int r = 0; r < kRows; ++r) {
    float all[kPanelOutputs];
    for (int g = 0; g < kGroups; ++g) vst1q_f32(all + 4 * g, y[r][g]);
    for (uint32_t n = 0; n < tile.output_count; ++n) tile.out[r * tile.out_stride + n] = all[n];
  }
}

}  // namespace outrider
