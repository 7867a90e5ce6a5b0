// What the AVX2 product kernels have in common. A panel's sixteen outputs are two registers of
// eight here, its halves 0 and 1. Static, as in product_loop.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "common/kernels/products/product_loop.h"

namespace outrider {

inline constexpr size_t kFetchAhead = 2048;  // as measured for AVX-512

// Half h of a line.
static inline __m256i LoadLine(const std::byte* line, int h) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 32 * h));
}

// Eight of sixteen f16 numbers as floats.
static inline __m256 LoadHalves(const std::byte* halves, int h) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(halves + 16 * h)));
}

// The same of bfloat16 numbers.
static inline __m256 LoadBfloat16(const std::byte* halves, int h) {
  const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(halves + 16 * h));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// Bit `kFrom` of each byte to bit `kTo`, the others zero. Shifts are of 16 bits, as there are none
// of 8; what comes over from the byte beside is masked.
template <int kFrom, int kTo>
static inline __m256i MoveBit(__m256i bytes) {
  if constexpr (kFrom < kTo) bytes = _mm256_slli_epi16(bytes, kTo - kFrom);
  if constexpr (kFrom > kTo) bytes = _mm256_srli_epi16(bytes, kFrom - kTo);
  return _mm256_and_si256(bytes, _mm256_set1_epi8(1 << kTo));
}

// What the low nibble of each byte stands for.
template <const int8_t (&kValues)[16]>
static inline __m256i Values(__m256i bytes) {
  const __m256i values =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kValues)));
  return _mm256_shuffle_epi8(values, _mm256_and_si256(bytes, _mm256_set1_epi8(15)));
}

// The dword at `at` in all lanes: four int8, or two int16, of a row.
static inline __m256i BroadcastDword(const void* at) {
  int dword;
  __builtin_memcpy(&dword, at, sizeof(dword));
  return _mm256_set1_epi32(dword);
}

// Asm, because GCC sees that a function of nothing but prefetches changes nothing, and drops the
// call.
static inline void Fetch(const std::byte* at) {
  asm volatile("prefetcht0 %0" : : "m"(*at));
}

template <int kLines>
static inline void FetchLines(const std::byte* at) {
  for (int i = 0; i < kLines; ++i) Fetch(at + i * kLineBytes);
}

// The results of kRows rows of one panel.
template <int kRows>
static inline void StoreResults(const __m256 (&y)[kRows][2], const ProductTile& tile) {
  for (int r = 0; r < kRows; ++r) {
    float* const out = tile.out + r * tile.out_stride;
    if (tile.output_count == kPanelOutputs) {
      _mm256_storeu_ps(out, y[r][0]);
      _mm256_storeu_ps(out + 8, y[r][1]);
      continue;
    }
    alignas(32) float all[kPanelOutputs];
    _mm256_store_ps(all, y[r][0]);
    _mm256_store_ps(all + 8, y[r][1]);
    for (uint32_t n = 0; n < tile.output_count; ++n) out[n] = all[n];
  }
}

}  // namespace outrider
