// The types in super-blocks of 256 with AVX2: vpmaddubsw into int16 as far as that holds, then
// vpmaddwd with the integer scale of the sub-block in both of its halves, which scales and widens
// at once. A type says how its bytes are unpacked:
//
//   struct Type {
//     static constexpr QuantPanel kPanel;
//     static constexpr int kWidth;      // elements of a sub-block, 16 or 32
//     static constexpr int kPairs;      // results of vpmaddubsw, of a sub-block, that fit int16
//     static constexpr int kOffset;     // bytes q stand for q - 2^kOffset; 0: for themselves
//     static constexpr bool kMinima;    // sub-blocks have minima
//     static constexpr bool kSigned;    // bytes are signed
//
//     // Byte i of lane n of scales[f] is the scale of output n's sub-block 4f + i; so for minima.
//     static void LoadScales(const std::byte* lines, const std::byte* halves, int h,
//                            __m256i (&scales)[kFours], __m256i (&minima)[kFours]);
//     // Elements 32j + 4t..32j + 4t + 3.
//     template <int j>
//     static __m256i Load(const std::byte* lines, int t, int h);
//   };
#include "common/formats/tensors/nibble_values.h"
#include "common/kernels/products/avx2_lanes.h"
#include "common/kernels/products/products_avx2.h"
#include "common/kernels/unroll.h"

namespace outrider {
namespace {

template <int kRows>
struct RowBlocks {
  const int8_t* quants[kRows];
  const int16_t* sums[kRows];
  const float* scales;  // one per row
};

// Byte i of every lane's dword, sign-extended to int16 and twice: put into the upper byte, and
// shifted down arithmetically. (A shuffle index with its top bit set, 0x80, gives zero; the others
// count through 16 bytes, so each half of the register anew.)
static inline __m256i TwiceByte(__m256i bytes, int i) {
  const __m256i first = _mm256_setr_epi32(0x00800080, 0x04800480, 0x08800880, 0x0c800c80,
                                          0x00800080, 0x04800480, 0x08800880, 0x0c800c80);
  return _mm256_srai_epi16(
      _mm256_shuffle_epi8(bytes, _mm256_add_epi32(first, _mm256_set1_epi32(0x01000100 * i))), 8);
}

// Of each bit, low ? a : b.
static inline __m256i Select(__m256i low, __m256i a, __m256i b) {
  return _mm256_or_si256(_mm256_and_si256(low, a), _mm256_andnot_si256(low, b));
}

// GGUF packs eight scales and eight minima of six bits into twelve bytes, bytes i of a, b and c:
//   a_i   scale i, and the two upper bits of scale 4 + i above it
//   b_i   minimum i, and the two upper bits of minimum 4 + i
//   c_i   the four lower bits of scale 4 + i, those of minimum 4 + i above them
// Shifts are of 16 bits, as there are none of 8; what comes over from the byte beside is masked.
static inline void LoadPackedScales(const std::byte* lines, int h, __m256i (&scales)[2],
                                    __m256i (&minima)[2]) {
  const __m256i six = _mm256_set1_epi8(63);
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i a = LoadLine(lines, h);
  const __m256i b = LoadLine(lines + kLineBytes, h);
  const __m256i c = LoadLine(lines + 2 * kLineBytes, h);
  scales[0] = _mm256_and_si256(a, six);
  scales[1] = Select(low, c, _mm256_and_si256(_mm256_srli_epi16(a, 2), six));
  minima[0] = _mm256_and_si256(b, six);
  minima[1] = Select(low, _mm256_srli_epi16(c, 4), _mm256_and_si256(_mm256_srli_epi16(b, 2), six));
}

// Nibbles of sub-block j of Q4_K and Q5_K.
template <int j>
static inline __m256i LoadNibbles(const std::byte* nibbles, int t, int h) {
  const __m256i line = LoadLine(nibbles + (8 * (j / 2) + t) * kLineBytes, h);
  return _mm256_and_si256(_mm256_srli_epi16(line, 4 * (j % 2)), _mm256_set1_epi8(15));
}

// Bit pairs of elements 32j..32j+31, moved to bit kTo.
template <int j, int kTo>
static inline __m256i LoadPairs(const std::byte* pairs, int t, int h) {
  constexpr int kFrom = 2 * (j % 4);
  __m256i line = LoadLine(pairs + (8 * (j / 4) + t) * kLineBytes, h);
  if constexpr (kFrom < kTo) line = _mm256_slli_epi16(line, kTo - kFrom);
  if constexpr (kFrom > kTo) line = _mm256_srli_epi16(line, kFrom - kTo);
  return _mm256_and_si256(line, _mm256_set1_epi8(3 << kTo));
}

// A pair is at most 2 * 15 * 127 = 3810, the eight of a sub-block 30,480: all fit an int16.
struct Q4_K {
  static constexpr QuantPanel kPanel = kQ4_KPanel;
  static constexpr int kWidth = 32;
  static constexpr int kPairs = 8;
  static constexpr int kOffset = 0;
  static constexpr bool kMinima = true;
  static constexpr bool kSigned = false;

  static inline void LoadScales(const std::byte* lines, const std::byte*, int h,
                                __m256i (&scales)[2], __m256i (&minima)[2]) {
    LoadPackedScales(lines, h, scales, minima);
  }

  template <int j>
  static inline __m256i Load(const std::byte* lines, int t, int h) {
    return LoadNibbles<j>(lines + kQ4_KNibbleLine * kLineBytes, t, h);
  }
};

// A pair is at most 2 * 31 * 127 = 7874, four of them 31,496.
struct Q5_K : Q4_K {
  static constexpr QuantPanel kPanel = kQ5_KPanel;
  static constexpr int kPairs = 4;

  template <int j>
  static inline __m256i Load(const std::byte* lines, int t, int h) {
    const __m256i fifth = LoadLine(lines + (kQ5_KFifthLine + t) * kLineBytes, h);
    return _mm256_or_si256(LoadNibbles<j>(lines + kQ5_KNibbleLine * kLineBytes, t, h),
                           MoveBit<j, 4>(fifth));
  }
};

// Quants are 0..63 here. A pair is at most 2 * 63 * 127 = 16,002, two of them 32,004.
struct Q6_K {
  static constexpr QuantPanel kPanel = kQ6_KPanel;
  static constexpr int kWidth = 16;
  static constexpr int kPairs = 2;
  static constexpr int kOffset = 5;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;

  static inline void LoadScales(const std::byte* lines, const std::byte*, int h,
                                __m256i (&scales)[4], __m256i (&)[4]) {
    for (int f = 0; f < 4; ++f) scales[f] = LoadLine(lines + (kQ6_KScaleLine + f) * kLineBytes, h);
  }

  // Of each half of the super-block, quarters 0 and 1 have low nibbles, 2 and 3 the high ones of
  // the same bytes.
  template <int j>
  static inline __m256i Load(const std::byte* lines, int t, int h) {
    constexpr int kQuarter = j % 4;
    const std::byte* const nibbles = lines + (16 * (j / 4) + 8 * (kQuarter % 2)) * kLineBytes;
    const __m256i nibble =
        _mm256_srli_epi16(LoadLine(nibbles + t * kLineBytes, h), 4 * (kQuarter / 2));
    return _mm256_or_si256(_mm256_and_si256(nibble, _mm256_set1_epi8(15)),
                           LoadPairs<j, 4>(lines + kQ6_KUpperLine * kLineBytes, t, h));
  }
};

// A pair is at most 2 * 3 * 127 = 762, and a sub-block has four.
struct Q2_K {
  static constexpr QuantPanel kPanel = kQ2_KPanel;
  static constexpr int kWidth = 16;
  static constexpr int kPairs = 4;
  static constexpr int kOffset = 0;
  static constexpr bool kMinima = true;
  static constexpr bool kSigned = false;

  static inline void LoadScales(const std::byte* lines, const std::byte*, int h,
                                __m256i (&scales)[4], __m256i (&minima)[4]) {
    const __m256i low = _mm256_set1_epi8(15);
    for (int f = 0; f < 4; ++f) {
      const __m256i line = LoadLine(lines + f * kLineBytes, h);
      scales[f] = _mm256_and_si256(line, low);
      minima[f] = _mm256_and_si256(_mm256_srli_epi16(line, 4), low);
    }
  }

  template <int j>
  static inline __m256i Load(const std::byte* lines, int t, int h) {
    return LoadPairs<j, 0>(lines + kQ2_KPairLine * kLineBytes, t, h);
  }
};

// Quants are 0..7 here. A pair is at most 2 * 7 * 127 = 1778, and a sub-block has four.
struct Q3_K {
  static constexpr QuantPanel kPanel = kQ3_KPanel;
  static constexpr int kWidth = 16;
  static constexpr int kPairs = 4;
  static constexpr int kOffset = 2;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;

  // Twelve bytes hold sixteen scales of six bits: bytes i of the first eight the lower halves of
  // scales i and, above, 8 + i; the bit pairs of the last four the upper ones of 4p + i.
  static inline void LoadScales(const std::byte* lines, const std::byte*, int h,
                                __m256i (&scales)[4], __m256i (&)[4]) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i upper = _mm256_set1_epi8(48);
    const __m256i middle = _mm256_set1_epi8(32);
    const std::byte* const packed = lines + kQ3_KScaleLine * kLineBytes;
    const __m256i a = LoadLine(packed, h);
    const __m256i b = LoadLine(packed + kLineBytes, h);
    const __m256i c = LoadLine(packed + 2 * kLineBytes, h);
    const __m256i lower[4] = {a, b, _mm256_srli_epi16(a, 4), _mm256_srli_epi16(b, 4)};
    const __m256i pairs[4] = {_mm256_slli_epi16(c, 4), _mm256_slli_epi16(c, 2), c,
                              _mm256_srli_epi16(c, 2)};
    for (int f = 0; f < 4; ++f) {
      const __m256i scale = Select(low, lower[f], _mm256_and_si256(pairs[f], upper));
      scales[f] = _mm256_sub_epi8(scale, middle);
    }
  }

  template <int j>
  static inline __m256i Load(const std::byte* lines, int t, int h) {
    return _mm256_or_si256(LoadPairs<j, 0>(lines + kQ3_KPairLine * kLineBytes, t, h),
                           MoveBit<j, 2>(LoadLine(lines + t * kLineBytes, h)));
  }
};

// A pair is at most 2 * 127 * 127 = 32,258; the activation takes over the weight's sign.
struct IQ4_XS {
  static constexpr QuantPanel kPanel = kIQ4_XSPanel;
  static constexpr int kWidth = 32;
  static constexpr int kPairs = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = true;

  // Lower halves of scales 2i and 2i + 1 are the nibbles of byte i; their upper bit pairs are
  // nibble i of 16 bits, which are dealt to the bytes of a dword.
  static inline void LoadScales(const std::byte* lines, const std::byte* halves, int h,
                                __m256i (&scales)[2], __m256i (&)[2]) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i upper = _mm256_set1_epi8(48);
    const __m256i middle = _mm256_set1_epi8(32);
    const __m256i line = LoadLine(lines, h);
    __m256i pairs = _mm256_cvtepu16_epi32(
        _mm_load_si128(reinterpret_cast<const __m128i*>(halves + kHalvesBytes + 16 * h)));
    pairs = _mm256_or_si256(_mm256_and_si256(pairs, _mm256_set1_epi32(0xff)),
                            _mm256_slli_epi32(_mm256_srli_epi32(pairs, 8), 16));
    pairs = _mm256_or_si256(pairs, _mm256_slli_epi32(pairs, 4));
    const __m256i even_upper = _mm256_and_si256(_mm256_slli_epi16(pairs, 4), upper);
    const __m256i odd_upper = _mm256_and_si256(_mm256_slli_epi16(pairs, 2), upper);
    const __m256i even = _mm256_sub_epi8(Select(low, line, even_upper), middle);
    const __m256i odd = _mm256_sub_epi8(Select(low, _mm256_srli_epi16(line, 4), odd_upper), middle);
    // Each output's eight beside each other, of two outputs and of the next two; then apart again.
    const __m256 first = _mm256_castsi256_ps(_mm256_unpacklo_epi8(even, odd));
    const __m256 next = _mm256_castsi256_ps(_mm256_unpackhi_epi8(even, odd));
    scales[0] = _mm256_castps_si256(_mm256_shuffle_ps(first, next, 0x88));
    scales[1] = _mm256_castps_si256(_mm256_shuffle_ps(first, next, 0xdd));
  }

  template <int j>
  static inline __m256i Load(const std::byte* lines, int t, int h) {
    const __m256i line = LoadLine(lines + (kIQ4_XSNibbleLine + 4 * j + t % 4) * kLineBytes, h);
    return Values<kIq4Values>(t < 4 ? line : _mm256_srli_epi16(line, 4));
  }
};

template <typename Type>
struct SuperBlockKernel {
  static constexpr uint32_t kRowsMax = 4;
  static constexpr uint32_t kPairRowsMax = 0;
  static constexpr QuantPanel kPanel = Type::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;
  static constexpr int kFours = 256 / Type::kWidth / 4;

  // Of both sub-blocks among elements 32j..32j+31, which may be one: scale or minimum.
  template <int j>
  static inline void TwoOf(const __m256i (&fours)[kFours], __m256i (&two)[2]) {
    if constexpr (Type::kWidth == 16) {
      two[0] = TwiceByte(fours[j / 2], 2 * (j % 2));
      two[1] = TwiceByte(fours[j / 2], 2 * (j % 2) + 1);
    } else {
      two[0] = TwiceByte(fours[j / 4], j % 4);
      two[1] = two[0];
    }
  }

  // Beside each other, as their sums of activations are in memory.
  static inline __m256i Beside(const __m256i (&two)[2]) {
    if constexpr (Type::kWidth == 32) return two[0];
    return _mm256_blend_epi16(two[0], two[1], 0xaa);
  }

  // `dots` gets the scaled products, `sides`, negative as it is -k that is scaled, the sums of
  // activations times minima.
  template <int j, int kRows>
  static inline void AddSubBlocks(const std::byte* lines, int h, const __m256i (&scales)[kFours],
                                  const __m256i (&minima)[kFours], const RowBlocks<kRows>& x,
                                  __m256i (&dots)[kRows], __m256i (&sides)[kRows]) {
    __m256i scale[2];
    TwoOf<j>(scales, scale);
    __m256i pairs[kRows];
    OUTRIDER_UNROLL
    for (int t = 0; t < 8; ++t) {
      const __m256i w = Type::template Load<j>(lines, t, h);
      const __m256i magnitude = Type::kSigned ? _mm256_abs_epi8(w) : w;
      OUTRIDER_UNROLL
      for (int r = 0; r < kRows; ++r) {
        __m256i x4 = BroadcastDword(x.quants[r] + 32 * j + 4 * t);
        if constexpr (Type::kSigned) x4 = _mm256_sign_epi8(x4, w);
        const __m256i pair = _mm256_maddubs_epi16(magnitude, x4);
        pairs[r] = t % Type::kPairs == 0 ? pair : _mm256_add_epi16(pairs[r], pair);
        if (t % Type::kPairs == Type::kPairs - 1) {
          dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(pairs[r], scale[t / 4]));
        }
      }
    }
    if constexpr (Type::kOffset != 0) {
      const __m256i beside = _mm256_slli_epi16(Beside(scale), Type::kOffset);
      for (int r = 0; r < kRows; ++r) {
        dots[r] =
            _mm256_sub_epi32(dots[r], _mm256_madd_epi16(beside, BroadcastDword(x.sums[r] + 2 * j)));
      }
    }
    if constexpr (Type::kMinima) {
      __m256i minimum[2];
      TwoOf<j>(minima, minimum);
      const __m256i beside = Beside(minimum);
      for (int r = 0; r < kRows; ++r) {
        sides[r] = _mm256_sub_epi32(sides[r],
                                    _mm256_madd_epi16(beside, BroadcastDword(x.sums[r] + 2 * j)));
      }
    }
  }

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int h,
                              const RowBlocks<kRows>& x, __m256 (&y)[kRows][2]) {
    __m256i scales[kFours];
    __m256i minima[kFours];
    Type::LoadScales(lines, halves, h, scales, minima);
    __m256i dots[kRows];
    __m256i sides[kRows];
    for (int r = 0; r < kRows; ++r) dots[r] = sides[r] = _mm256_setzero_si256();
    AddSubBlocks<0>(lines, h, scales, minima, x, dots, sides);
    AddSubBlocks<1>(lines, h, scales, minima, x, dots, sides);
    AddSubBlocks<2>(lines, h, scales, minima, x, dots, sides);
    AddSubBlocks<3>(lines, h, scales, minima, x, dots, sides);
    AddSubBlocks<4>(lines, h, scales, minima, x, dots, sides);
    AddSubBlocks<5>(lines, h, scales, minima, x, dots, sides);
    AddSubBlocks<6>(lines, h, scales, minima, x, dots, sides);
    AddSubBlocks<7>(lines, h, scales, minima, x, dots, sides);
    const __m256 d = LoadHalves(halves, h);
    for (int r = 0; r < kRows; ++r) {
      const __m256 row_scale = _mm256_set1_ps(x.scales[r]);
      y[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), _mm256_mul_ps(d, row_scale), y[r][h]);
      if constexpr (Type::kMinima) {
        const __m256 dmin = LoadHalves(halves + kHalvesBytes, h);
        y[r][h] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(sides[r]), _mm256_mul_ps(dmin, row_scale), y[r][h]);
      }
    }
  }

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    const std::byte* halves = tile.panels + HalvesOffset(kPanel, tile.x.inputs);
    __m256 y[kRows][2];
    for (int r = 0; r < kRows; ++r) y[r][0] = y[r][1] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < block_count; ++b) {
      const std::byte* const lines = tile.panels + b * kBlockBytes;
      FetchLines<kPanel.lines>(b + 1 < block_count ? lines + kBlockBytes : tile.next_panels);
      RowBlocks<kRows> x;
      x.scales = tile.x.scales + b * tile.x.scale_stride;
      for (int r = 0; r < kRows; ++r) {
        x.quants[r] = tile.x.quants + r * tile.x.quant_stride + size_t{b} * 256;
        x.sums[r] = tile.x.sums + r * tile.x.sum_stride + size_t{b} * 16;
      }
      AddBlock(lines, halves, 0, x, y);
      // Else GCC keeps all broadcast activations, in memory, for the other half: Q3_K took 1.35 and
      // IQ4_XS 1.2 times as long.
      asm("" ::: "memory");
      AddBlock(lines, halves, 1, x, y);
      halves += kPanel.halves * kHalvesBytes;
    }
    StoreResults(y, tile);
  }
};

template <typename Type>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<SuperBlockKernel<Type>>(PanelSize(Type::kPanel, x.inputs), panels, panel_count,
                                        output_count, x, out, out_stride);
}

}  // namespace

namespace avx2 {

OUTRIDER_DEFINE_PRODUCT(MultiplyQ4_K, Multiply<Q4_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ5_K, Multiply<Q5_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ6_K, Multiply<Q6_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ2_K, Multiply<Q2_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ3_K, Multiply<Q3_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyIQ4_XS, Multiply<IQ4_XS>)

}  // namespace avx2
}  // namespace outrider
