// The types in blocks of 32 with AVX2, and the table.
//
// vpmaddubsw multiplies unsigned by signed bytes and adds two neighbours into int16, with
// saturation that the bounds below rule out. vpmaddwd then adds the two pairs of a dword into
// int32.
#include "common/kernels/products/products_avx2.h"
#include "common/formats/tensors/nibble_values.h"
#include "common/kernels/products/avx2_lanes.h"
#include "common/kernels/products/product_tables.h"
#include "common/kernels/unroll.h"

namespace outrider {
namespace {

// Registers, of 16, with four rows: eight sums (a row has two halves of the panel), the weights of
// a line two or four, a broadcast activation; the results wait in memory.

// Nibbles q are the unsigned side; for Q4_0 -8 times the sum of the activations is added
// afterwards. A pair is at most 2 * 15 * 127 = 3810, so all eight of a block add up in int16:
// 30,480.
template <const QuantPanel& kShape, int kOffset>
struct FourBits {
  static constexpr QuantPanel kPanel = kShape;

  template <int kRows>
  static inline void Dots(const std::byte* lines, const int8_t* const (&quants)[kRows],
                          const int16_t* const (&sums)[kRows], __m256i (&dots)[kRows][2]) {
    const __m256i low = _mm256_set1_epi8(15);
    for (int t = 0; t < 4; ++t) {
      const __m256i line0 = LoadLine(lines + t * kLineBytes, 0);
      const __m256i line1 = LoadLine(lines + t * kLineBytes, 1);
      const __m256i low0 = _mm256_and_si256(line0, low);
      const __m256i low1 = _mm256_and_si256(line1, low);
      const __m256i high0 = _mm256_and_si256(_mm256_srli_epi16(line0, 4), low);
      const __m256i high1 = _mm256_and_si256(_mm256_srli_epi16(line1, 4), low);
      for (int r = 0; r < kRows; ++r) {
        const __m256i x = BroadcastDword(quants[r] + 4 * t);
        const __m256i x16 = BroadcastDword(quants[r] + 4 * t + 16);
        const __m256i pairs0 =
            _mm256_add_epi16(_mm256_maddubs_epi16(low0, x), _mm256_maddubs_epi16(high0, x16));
        const __m256i pairs1 =
            _mm256_add_epi16(_mm256_maddubs_epi16(low1, x), _mm256_maddubs_epi16(high1, x16));
        dots[r][0] = t == 0 ? pairs0 : _mm256_add_epi16(dots[r][0], pairs0);
        dots[r][1] = t == 0 ? pairs1 : _mm256_add_epi16(dots[r][1], pairs1);
      }
    }
    const __m256i ones = _mm256_set1_epi16(1);
    for (int r = 0; r < kRows; ++r) {
      dots[r][0] = _mm256_madd_epi16(dots[r][0], ones);
      dots[r][1] = _mm256_madd_epi16(dots[r][1], ones);
      if constexpr (kOffset != 0) {
        const __m256i offset =
            _mm256_madd_epi16(BroadcastDword(sums[r]), _mm256_set1_epi16(-kOffset));
        dots[r][0] = _mm256_add_epi32(dots[r][0], offset);
        dots[r][1] = _mm256_add_epi32(dots[r][1], offset);
      }
    }
  }
};

// Bytes q, up to 31, that stand for q - kOffset. A pair is at most 2 * 31 * 127 = 7874, so four of
// a block add up in int16: 31,496. Those are the first half's, then the second's.
template <typename Lines, int kOffset>
struct UnsignedBytes {
  static constexpr QuantPanel kPanel = Lines::kPanel;

  template <int kHalf, int t, int kRows>
  static inline void AddLine(const std::byte* lines, const int8_t* const (&quants)[kRows],
                             __m256i (&pairs)[kRows][2]) {
    for (int h = 0; h < 2; ++h) {
      const __m256i w = Lines::template Load<kHalf, t>(lines, h);
      for (int r = 0; r < kRows; ++r) {
        const __m256i pair =
            _mm256_maddubs_epi16(w, BroadcastDword(quants[r] + 16 * kHalf + 4 * t));
        pairs[r][h] = t == 0 ? pair : _mm256_add_epi16(pairs[r][h], pair);
      }
    }
  }

  template <int kHalf, int kRows>
  static inline void AddHalf(const std::byte* lines, const int8_t* const (&quants)[kRows],
                             __m256i (&dots)[kRows][2]) {
    __m256i pairs[kRows][2];
    AddLine<kHalf, 0>(lines, quants, pairs);
    AddLine<kHalf, 1>(lines, quants, pairs);
    AddLine<kHalf, 2>(lines, quants, pairs);
    AddLine<kHalf, 3>(lines, quants, pairs);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int r = 0; r < kRows; ++r) {
      dots[r][0] = _mm256_add_epi32(dots[r][0], _mm256_madd_epi16(pairs[r][0], ones));
      dots[r][1] = _mm256_add_epi32(dots[r][1], _mm256_madd_epi16(pairs[r][1], ones));
    }
  }

  template <int kRows>
  static inline void Dots(const std::byte* lines, const int8_t* const (&quants)[kRows],
                          const int16_t* const (&sums)[kRows], __m256i (&dots)[kRows][2]) {
    for (int r = 0; r < kRows; ++r) {
      dots[r][0] = kOffset == 0
                       ? _mm256_setzero_si256()
                       : _mm256_madd_epi16(BroadcastDword(sums[r]), _mm256_set1_epi16(-kOffset));
      dots[r][1] = dots[r][0];
    }
    AddHalf<0>(lines, quants, dots);
    AddHalf<1>(lines, quants, dots);
  }
};

// Nibbles with a fifth bit.
template <const QuantPanel& kShape>
struct FiveBitLines {
  static constexpr QuantPanel kPanel = kShape;

  template <int kHalf, int t>
  static inline __m256i Load(const std::byte* lines, int h) {
    const __m256i line = LoadLine(lines + (kQ5_0NibbleLine + t) * kLineBytes, h);
    const __m256i nibbles =
        _mm256_and_si256(_mm256_srli_epi16(line, 4 * kHalf), _mm256_set1_epi8(15));
    return _mm256_or_si256(nibbles, MoveBit<4 * kHalf + t, 4>(LoadLine(lines, h)));
  }
};

// Nibbles that stand for -12 to 12, looked up with 12 added.
struct MXFP4Lines {
  static constexpr QuantPanel kPanel = kMXFP4Panel;
  static constexpr int kOffset = 12;

  template <int kHalf, int t>
  static inline __m256i Load(const std::byte* lines, int h) {
    const __m256i line = LoadLine(lines + t * kLineBytes, h);
    return _mm256_add_epi8(Values<kMxfp4Values>(_mm256_srli_epi16(line, 4 * kHalf)),
                           _mm256_set1_epi8(kOffset));
  }
};

struct Q8_0Lines {
  static constexpr QuantPanel kPanel = kQ8_0Panel;

  static inline __m256i Load(const std::byte* lines, int t, int h) {
    return LoadLine(lines + t * kLineBytes, h);
  }
};

// Nibbles that are looked up.
struct IQ4_NLLines {
  static constexpr QuantPanel kPanel = kIQ4_NLPanel;

  static inline __m256i Load(const std::byte* lines, int t, int h) {
    const __m256i line = LoadLine(lines + t % 4 * kLineBytes, h);
    return Values<kIq4Values>(t < 4 ? line : _mm256_srli_epi16(line, 4));
  }
};

// |w|, up to 128, is the unsigned side and the activation takes over w's sign. A pair is at most
// 2 * 128 * 127 = 32,512; two would not fit, so each is widened. Unrolled, because in a loop four
// rows had three of their sums in memory: 18 % of the time.
template <typename Lines>
struct SignedBytes {
  static constexpr QuantPanel kPanel = Lines::kPanel;

  template <int kRows>
  static inline void Dots(const std::byte* lines, const int8_t* const (&quants)[kRows],
                          const int16_t* const (&)[kRows], __m256i (&dots)[kRows][2]) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int r = 0; r < kRows; ++r) dots[r][0] = dots[r][1] = _mm256_setzero_si256();
    OUTRIDER_UNROLL
    for (int t = 0; t < 8; ++t) {
      OUTRIDER_UNROLL
      for (int h = 0; h < 2; ++h) {
        const __m256i w = Lines::Load(lines, t, h);
        const __m256i magnitude = _mm256_abs_epi8(w);
        OUTRIDER_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m256i x = _mm256_sign_epi8(BroadcastDword(quants[r] + 4 * t), w);
          const __m256i pairs = _mm256_maddubs_epi16(magnitude, x);
          dots[r][h] = _mm256_add_epi32(dots[r][h], _mm256_madd_epi16(pairs, ones));
        }
      }
    }
  }
};

template <typename Type>
struct BlockKernel {
  static constexpr uint32_t kRowsMax = 4;
  static constexpr uint32_t kPairRowsMax = 0;
  static constexpr QuantPanel kPanel = Type::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    const uint32_t fetch_blocks = kFetchAhead / kBlockBytes;
    const std::byte* halves = tile.panels + HalvesOffset(kPanel, tile.x.inputs);
    const std::byte* ahead = tile.panels + kFetchAhead;
    const int8_t* quants[kRows];
    const int16_t* sums[kRows];
    __m256 y[kRows][2];
    for (int r = 0; r < kRows; ++r) {
      quants[r] = tile.x.quants + r * tile.x.quant_stride;
      sums[r] = tile.x.sums + r * tile.x.sum_stride;
      y[r][0] = y[r][1] = _mm256_setzero_ps();
    }
    for (uint32_t b = 0; b < block_count; ++b) {
      if (b + fetch_blocks == block_count) ahead = tile.next_panels;
      FetchLines<kPanel.lines>(ahead);
      Fetch(halves + kFetchAhead / 8);
      const float* const scales = tile.x.scales + b * tile.x.scale_stride;
      __m256i dots[kRows][2];
      Type::Dots(tile.panels + b * kBlockBytes, quants, sums, dots);
      const __m256 scale0 = LoadScale(halves, 0);
      const __m256 scale1 = LoadScale(halves, 1);
      for (int r = 0; r < kRows; ++r) {
        const __m256 row_scale = _mm256_set1_ps(scales[r]);
        y[r][0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r][0]), _mm256_mul_ps(scale0, row_scale),
                                  y[r][0]);
        y[r][1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r][1]), _mm256_mul_ps(scale1, row_scale),
                                  y[r][1]);
      }
      if constexpr (kPanel.halves == 2) AddMinima(halves + kHalvesBytes, sums, scales, y);
      for (int r = 0; r < kRows; ++r) {
        quants[r] += 32;
        sums[r] += 2;
      }
      halves += kPanel.halves * kHalvesBytes;
      ahead += kBlockBytes;
    }
    StoreResults(y, tile);
  }

  static inline __m256 LoadScale(const std::byte* halves, int h) {
    return kPanel.exponents ? LoadBfloat16(halves, h) : LoadHalves(halves, h);
  }

  // y += float(sum of the row's 32) * (m * the row's scale)
  template <int kRows>
  static inline void AddMinima(const std::byte* minima, const int16_t* const (&sums)[kRows],
                               const float* scales, __m256 (&y)[kRows][2]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256 minimum0 = LoadHalves(minima, 0);
    const __m256 minimum1 = LoadHalves(minima, 1);
    for (int r = 0; r < kRows; ++r) {
      const __m256 sum = _mm256_cvtepi32_ps(_mm256_madd_epi16(BroadcastDword(sums[r]), ones));
      const __m256 row_scale = _mm256_set1_ps(scales[r]);
      y[r][0] = _mm256_fmadd_ps(sum, _mm256_mul_ps(minimum0, row_scale), y[r][0]);
      y[r][1] = _mm256_fmadd_ps(sum, _mm256_mul_ps(minimum1, row_scale), y[r][1]);
    }
  }
};

template <typename Type>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<BlockKernel<Type>>(PanelSize(Type::kPanel, x.inputs), panels, panel_count,
                                   output_count, x, out, out_stride);
}

}  // namespace

const ProductKernels kAvx2Products = {
    .f32 = avx2::MultiplyF32,
    .f16 = avx2::MultiplyF16,
    .bf16 = avx2::MultiplyBF16,
    .q8_0 = Multiply<SignedBytes<Q8_0Lines>>,
    .q4_0 = Multiply<FourBits<kQ4_0Panel, 8>>,
    .q4_1 = Multiply<FourBits<kQ4_1Panel, 0>>,
    .q5_0 = Multiply<UnsignedBytes<FiveBitLines<kQ5_0Panel>, 16>>,
    .q5_1 = Multiply<UnsignedBytes<FiveBitLines<kQ5_1Panel>, 0>>,
    .iq4_nl = Multiply<SignedBytes<IQ4_NLLines>>,
    .mxfp4 = Multiply<UnsignedBytes<MXFP4Lines, MXFP4Lines::kOffset>>,
    .q4_k = avx2::MultiplyQ4_K,
    .q5_k = avx2::MultiplyQ5_K,
    .q6_k = avx2::MultiplyQ6_K,
    .q2_k = avx2::MultiplyQ2_K,
    .q3_k = avx2::MultiplyQ3_K,
    .iq4_xs = avx2::MultiplyIQ4_XS,
};

}  // namespace outrider
