// Q8_0 and Q4_0 with AVX2, and the table.
//
// vpmaddubsw multiplies unsigned by signed bytes and adds two neighbours into int16, with
// saturation that the bounds below rule out. vpmaddwd then adds the two pairs of a dword into
// int32.
#include "common/kernels/products/products_avx2.h"
#include "common/kernels/products/avx2_lanes.h"
#include "common/kernels/products/product_tables.h"

namespace outrider {
namespace {

// Registers, of 16, with four rows: eight sums (a row has two halves of the panel), the weights of
// a line two or four, a broadcast activation; the results wait in memory.

// Nibbles q are the unsigned side; -8 times the sum of the activations is added afterwards. A pair
// is at most 2 * 15 * 127 = 3810, so all eight of a block add up in int16: 30,480.
struct Q4_0 {
  static constexpr QuantPanel kPanel = kQ4_0Panel;

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
    const __m256i minus_eight = _mm256_set1_epi16(-8);
    for (int r = 0; r < kRows; ++r) {
      const __m256i offset = _mm256_madd_epi16(BroadcastDword(sums[r]), minus_eight);
      dots[r][0] = _mm256_add_epi32(_mm256_madd_epi16(dots[r][0], ones), offset);
      dots[r][1] = _mm256_add_epi32(_mm256_madd_epi16(dots[r][1], ones), offset);
    }
  }
};

// |w|, up to 128, is the unsigned side and the activation takes over w's sign. A pair is at most
// 2 * 128 * 127 = 32,512; two would not fit, so each is widened.
struct Q8_0 {
  static constexpr QuantPanel kPanel = kQ8_0Panel;

  template <int kRows>
  static inline void Dots(const std::byte* lines, const int8_t* const (&quants)[kRows],
                          const int16_t* const (&)[kRows], __m256i (&dots)[kRows][2]) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int r = 0; r < kRows; ++r) dots[r][0] = dots[r][1] = _mm256_setzero_si256();
    for (int t = 0; t < 8; ++t) {
      for (int h = 0; h < 2; ++h) {
        const __m256i w = LoadLine(lines + t * kLineBytes, h);
        const __m256i magnitude = _mm256_abs_epi8(w);
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
      const __m256 scale0 = LoadHalves(halves, 0);
      const __m256 scale1 = LoadHalves(halves, 1);
      for (int r = 0; r < kRows; ++r) {
        const __m256 row_scale = _mm256_set1_ps(scales[r]);
        y[r][0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r][0]), _mm256_mul_ps(scale0, row_scale),
                                  y[r][0]);
        y[r][1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r][1]), _mm256_mul_ps(scale1, row_scale),
                                  y[r][1]);
      }
      for (int r = 0; r < kRows; ++r) {
        quants[r] += 32;
        sums[r] += 2;
      }
      halves += kHalvesBytes;
      ahead += kBlockBytes;
    }
    StoreResults(y, tile);
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
    .q8_0 = Multiply<Q8_0>,
    .q4_0 = Multiply<Q4_0>,
    .q4_k = avx2::MultiplyQ4_K,
    .q6_k = avx2::MultiplyQ6_K,
};

}  // namespace outrider
