// The bytes of the types in blocks of 32 in AVX-512 registers, for the VNNI and the AMX kernels:
// the 32 weights of a block of 16 outputs as unsigned bytes, kOffset above what they stand for.
// Those of step t are k = 4t..4t+3. Static, as in product_loop.h.
#pragma once

#include "common/formats/tensors/nibble_values.h"
#include "common/kernels/products/avx512_lanes.h"

namespace outrider {

struct Q8_0Lines {
  static constexpr QuantPanel kPanel = kQ8_0Panel;
  static constexpr int kOffset = 128;

  static inline __m512i Load(const std::byte* lines, int t) {
    return _mm512_xor_si512(LoadLine(lines + t * kLineBytes), _mm512_set1_epi8(-128));
  }
};

template <const QuantPanel& kShape, int kOffsetOfNibbles>
struct FourBitLines {
  static constexpr QuantPanel kPanel = kShape;
  static constexpr int kOffset = kOffsetOfNibbles;

  static inline __m512i Load(const std::byte* lines, int t) {
    const __m512i line = LoadLine(lines + t % 4 * kLineBytes);
    return _mm512_and_si512(t < 4 ? line : _mm512_srli_epi16(line, 4), _mm512_set1_epi8(15));
  }
};

using Q4_0Lines = FourBitLines<kQ4_0Panel, 8>;
using Q4_1Lines = FourBitLines<kQ4_1Panel, 0>;

// The fifth bits of step t are bit t of the bytes of the first line.
template <const QuantPanel& kShape, int kOffsetOfQuants>
struct FiveBitLines {
  static constexpr QuantPanel kPanel = kShape;
  static constexpr int kOffset = kOffsetOfQuants;

  static inline __m512i Load(const std::byte* lines, int t) {
    const __m512i line = LoadLine(lines + (kQ5_0NibbleLine + t % 4) * kLineBytes);
    const __m512i fifth = LoadLine(lines);
    return Select(
        _mm512_set1_epi8(15), t < 4 ? line : _mm512_srli_epi16(line, 4),
        _mm512_and_si512(t < 4 ? _mm512_slli_epi16(fifth, 4 - t) : _mm512_srli_epi16(fifth, t - 4),
                         _mm512_set1_epi8(16)));
  }
};

using Q5_0Lines = FiveBitLines<kQ5_0Panel, 16>;
using Q5_1Lines = FiveBitLines<kQ5_1Panel, 0>;

// Nibbles that are looked up, in a table that is kOffset above the values.
template <const QuantPanel& kShape, const int8_t (&kValues)[16], int kOffsetOfValues>
struct ValueLines {
  static constexpr QuantPanel kPanel = kShape;
  static constexpr int kOffset = kOffsetOfValues;

  static inline __m512i Load(const std::byte* lines, int t) {
    const __m512i line = LoadLine(lines + t % 4 * kLineBytes);
    return Values<kValues, kOffset>(t < 4 ? line : _mm512_srli_epi16(line, 4));
  }
};

using IQ4_NLLines = ValueLines<kIQ4_NLPanel, kIq4Values, 128>;
using MXFP4Lines = ValueLines<kMXFP4Panel, kMxfp4Values, 12>;

// A block's scales as floats.
template <typename Lines>
static inline __m512 LoadScale(const std::byte* halves) {
  return Lines::kPanel.exponents ? LoadBfloat16(halves) : LoadHalves(halves);
}

}  // namespace outrider
