// The K-quants' packed bytes in AVX-512 registers, for the VNNI and the AMX kernels. Static, as in
// product_loop.h.
#pragma once

#include "common/kernels/products/avx512_lanes.h"

namespace outrider {

// The packed 6-bit scales and minima of a Q4_K super-block: byte i of lane n is that of sub-block i
// (low) or 4 + i (high) of output n.
struct Q4_KScales {
  __m512i scales_low;
  __m512i scales_high;
  __m512i mins_low;
  __m512i mins_high;
};

// GGUF packs eight scales and eight minima of six bits into twelve bytes, bytes i of a, b and c:
//   a_i   scale i, and the two upper bits of scale 4 + i above it
//   b_i   minimum i, and the two upper bits of minimum 4 + i
//   c_i   the four lower bits of scale 4 + i, those of minimum 4 + i above them
// Shifts are of 16 bits, as there are none of 8; what comes over from the next byte is masked off.
static inline Q4_KScales LoadQ4_KScales(const std::byte* lines) {
  const __m512i six = _mm512_set1_epi8(63);
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i upper = _mm512_set1_epi8(48);
  const __m512i a = LoadLine(lines);
  const __m512i b = LoadLine(lines + kLineBytes);
  const __m512i c = LoadLine(lines + 2 * kLineBytes);
  return {.scales_low = _mm512_and_si512(a, six),
          .scales_high = _mm512_or_si512(_mm512_and_si512(c, low),
                                         _mm512_and_si512(_mm512_srli_epi16(a, 2), upper)),
          .mins_low = _mm512_and_si512(b, six),
          .mins_high = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(c, 4), low),
                                       _mm512_and_si512(_mm512_srli_epi16(b, 2), upper))};
}

// Byte i of every lane's dword, zero-extended to int16 and twice. (A shuffle index with its top bit
// set, 0x80, gives zero; the others count through 16 bytes, so each quarter of the register anew.)
static inline __m512i TwiceByte(__m512i bytes, int i) {
  return _mm512_shuffle_epi8(
      bytes, _mm512_add_epi32(_mm512_set4_epi32(0x800c800c, 0x80088008, 0x80048004, 0x80008000),
                              _mm512_set1_epi32(0x00010001 * i)));
}

// Fetches the j-th eighth of a super-block's lines: all at once would fill every line fill buffer
// and make the loads behind them wait.
template <const QuantPanel& kPanel, int j>
static inline void FetchEighth(const std::byte* lines) {
  constexpr int kEighth = (kPanel.lines + 7) / 8;
  FetchLines<kEighth>(lines + j * kEighth * kLineBytes);
}

template <const QuantPanel& kPanel, int j>
static inline void FetchEighthFar(const std::byte* lines) {
  constexpr int kEighth = (kPanel.lines + 7) / 8;
  FetchLinesFar<kEighth>(lines + j * kEighth * kLineBytes);
}

// Sub-block j (32 elements) of a Q4_K super-block: vector t is k = 32j + 4t..4t+3.
template <int j>
static inline void LoadQ4_KNibbles(const std::byte* lines, __m512i (&w)[8]) {
  const __m512i low = _mm512_set1_epi8(15);
  for (int t = 0; t < 8; ++t) {
    const __m512i line = LoadLine(lines + (kQ4_KScaleLines + 8 * (j / 2) + t) * kLineBytes);
    w[t] = _mm512_and_si512(_mm512_srli_epi16(line, 4 * (j % 2)), low);
  }
}

// Elements k = 32j + 4t..4t+3 of a Q6_K super-block as unsigned bytes 0..63: two sub-blocks. Of
// each half of the super-block, quarters 0 and 1 have low nibbles, 2 and 3 the high ones of the
// same bytes; bit pair `quarter` of a byte of `pairs` goes to bits 4 and 5.
template <int j>
static inline void LoadQ6_KQuants(const std::byte* lines, __m512i (&w)[8]) {
  constexpr int kHalf = j / 4;
  constexpr int kQuarter = j % 4;
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i upper = _mm512_set1_epi8(48);
  const std::byte* const nibbles = lines + (16 * kHalf + 8 * (kQuarter % 2)) * kLineBytes;
  const std::byte* const pairs = lines + (kQ6_KUpperLine + 8 * kHalf) * kLineBytes;
  for (int t = 0; t < 8; ++t) {
    const __m512i nibble =
        _mm512_srli_epi16(LoadLine(nibbles + t * kLineBytes), 4 * (kQuarter / 2));
    __m512i pair = LoadLine(pairs + t * kLineBytes);
    if constexpr (kQuarter < 2) pair = _mm512_slli_epi16(pair, 4 - 2 * kQuarter);
    if constexpr (kQuarter > 2) pair = _mm512_srli_epi16(pair, 2);
    constexpr int kSelect = 0xca;  // low ? nibble : pair
    w[t] = _mm512_ternarylogic_epi32(low, nibble, _mm512_and_si512(pair, upper), kSelect);
  }
}

}  // namespace outrider
