// What the AVX-512 product kernels have in common. Static, as in product_loop.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "common/kernels/products/product_loop.h"

namespace outrider {

// Bytes ahead that panels are fetched into the first-level cache. From 1 to 4 KiB it is the same;
// without, 16 rows of Q8_0 take as long as reading and computing one after the other.
inline constexpr size_t kFetchAhead = 2048;

static inline __m512i LoadLine(const std::byte* line) {
  return _mm512_load_si512(line);
}

// Sixteen halves as floats.
static inline __m512 LoadHalves(const std::byte* halves) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(halves)));
}

// The same of bfloat16 numbers.
static inline __m512 LoadBfloat16(const std::byte* halves) {
  const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(halves));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Bits kFrom and up of each byte to bits kTo and up; what comes over from the byte beside, as
// shifts are of 16 bits, is for the caller to mask.
template <int kFrom, int kTo>
static inline __m512i MoveBits(__m512i bytes) {
  if constexpr (kFrom < kTo) return _mm512_slli_epi16(bytes, kTo - kFrom);
  if constexpr (kFrom > kTo) return _mm512_srli_epi16(bytes, kFrom - kTo);
  return bytes;
}

// Of each bit, mask ? a : b.
static inline __m512i Select(__m512i mask, __m512i a, __m512i b) {
  return _mm512_ternarylogic_epi32(mask, a, b, 0xca);
}

// What the low nibble of each byte stands for, and kOffset more.
template <const int8_t (&kValues)[16], int kOffset>
static inline __m512i Values(__m512i bytes) {
  const __m128i values = _mm_add_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kValues)),
                                      _mm_set1_epi8(static_cast<char>(kOffset)));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values),
                             _mm512_and_si512(bytes, _mm512_set1_epi8(15)));
}

// The dword at `at` in all lanes: four int8, or two int16, of a row.
static inline __m512i BroadcastDword(const void* at) {
  int dword;
  __builtin_memcpy(&dword, at, sizeof(dword));
  return _mm512_set1_epi32(dword);
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

// Into the second-level cache.
static inline void FetchFar(const std::byte* at) {
  asm volatile("prefetcht1 %0" : : "m"(*at));
}

// What is fetched from memory a block or two ahead comes too late where there is much to compute
// for a line: it is asked this far ahead into the second-level cache. From memory, over the same
// without: with AMX at 16 rows, Q8_0 0.97, Q4_0 0.95, Q4_K 0.95, Q6_K 0.96; without AMX at one row,
// Q4_K 0.95 and Q6_K 0.9, and at 4 to 16 0.97 and 0.95.
inline constexpr size_t kFarAhead = 16384;

template <int kLines>
static inline void FetchLinesFar(const std::byte* at) {
  for (int i = 0; i < kLines; ++i) FetchFar(at + i * kLineBytes);
}

// The next `kLines` lines, of each panel, of what the tile fetches into the second-level cache.
template <int kLines, int kPanels>
static inline void FetchTileFar(const ProductTile& tile, const std::byte*& far) {
  for (int i = 0; i < kLines && far < tile.far_end; ++i, far += kLineBytes) {
    for (int p = 0; p < kPanels; ++p) FetchFar(far + p * tile.panel_size);
  }
}

// The results of kRows rows and kPanels panels.
template <int kRows, int kPanels>
static inline void StoreResults(const __m512 (&y)[kPanels][kRows], const ProductTile& tile) {
  for (int p = 0; p < kPanels; ++p) {
    const int left = static_cast<int>(tile.output_count) - p * static_cast<int>(kPanelOutputs);
    const __mmask16 mask = _cvtu32_mask16(left >= 16 ? 0xffffu : (1u << left) - 1);
    for (int r = 0; r < kRows; ++r) {
      _mm512_mask_storeu_ps(tile.out + r * tile.out_stride + p * kPanelOutputs, mask, y[p][r]);
    }
  }
}

}  // namespace outrider
