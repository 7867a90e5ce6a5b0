// The types in blocks of 32 with AVX-512 VNNI, and the table.
//
// vpdpbusd multiplies unsigned by signed bytes. Weights that can be negative are made the unsigned
// side by adding 128, 16, 12 or 8; the integer accumulator starts at minus that times the sum of
// the activations, so that the block's integer comes out exact and signed.
//
// vpdpbusd answers after five or six cycles and two start in each, so a dozen sums have to take
// turns: up to eight rows and two panels make sixteen. The weights of a step are unpacked as it
// comes, and where there are more than eight results they stay in memory until the end of a block:
// sums and results together would fill the 32 registers.
#include "common/kernels/products/products_avx512.h"
#include "common/kernels/products/avx512_block_lanes.h"
#include "common/kernels/products/product_tables.h"

namespace outrider {
namespace {

// Tells GCC that the results are elsewhere, so that it neither holds them in registers nor copies
// them about while the sums need those.
template <int kRows, int kPanels>
static inline void KeepInMemory(__m512 (&y)[kPanels][kRows]) {
  asm volatile("" : "+m"(y));
}

template <typename Lines>
struct BlockKernel {
  static constexpr uint32_t kRowsMax = 8;
  static constexpr uint32_t kPairRowsMax = 8;
  static constexpr QuantPanel kPanel = Lines::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    const size_t halves_offset = HalvesOffset(kPanel, tile.x.inputs);
    const uint32_t fetch_blocks = kFetchAhead / kBlockBytes;
    const __m512i offsets = _mm512_set1_epi16(-Lines::kOffset);
    const __m512i ones = _mm512_set1_epi16(1);

    __m512 y[kPanels][kRows];
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < kRows; ++r) y[p][r] = _mm512_setzero_ps();
    }
    const std::byte* far = tile.far;
    const std::byte* ahead = tile.panels + kFetchAhead;
    for (uint32_t b = 0; b < block_count; ++b, ahead += kBlockBytes) {
      if (b + fetch_blocks == block_count) ahead = tile.next_panels;
      for (int p = 0; p < kPanels; ++p) FetchLines<kPanel.lines>(ahead + p * tile.panel_size);
      FetchTileFar<(kPanel.lines + 1) / 2, kPanels>(tile, far);

      const int8_t* const quants = tile.x.quants + size_t{b} * 32;
      const int16_t* const sums = tile.x.sums + size_t{b} * 2;
      __m512i dot[kPanels][kRows];
      for (int r = 0; r < kRows; ++r) {
        dot[0][r] = _mm512_setzero_si512();
        if constexpr (Lines::kOffset != 0) {
          dot[0][r] =
              _mm512_dpwssd_epi32(dot[0][r], offsets, BroadcastDword(sums + r * tile.x.sum_stride));
        }
        for (int p = 1; p < kPanels; ++p) dot[p][r] = dot[0][r];
      }
#pragma GCC unroll 8  // else it stays a loop, and an address is computed for every step
      for (int t = 0; t < 8; ++t) {
        __m512i w[kPanels];
        for (int p = 0; p < kPanels; ++p) {
          w[p] = Lines::Load(tile.panels + p * tile.panel_size + b * kBlockBytes, t);
        }
        for (int r = 0; r < kRows; ++r) {
          const __m512i x = BroadcastDword(quants + r * tile.x.quant_stride + 4 * t);
          for (int p = 0; p < kPanels; ++p) dot[p][r] = _mm512_dpbusd_epi32(dot[p][r], w[p], x);
        }
      }
      if constexpr (kRows * kPanels > 8) KeepInMemory(y);
      for (int p = 0; p < kPanels; ++p) {
        const std::byte* const halves = tile.panels + p * tile.panel_size + halves_offset +
                                        size_t{b} * (kPanel.halves * kHalvesBytes);
        const __m512 scale = LoadScale<Lines>(halves);
        for (int r = 0; r < kRows; ++r) {
          const __m512 row_scale = _mm512_set1_ps(tile.x.scales[b * tile.x.scale_stride + r]);
          y[p][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][r]), _mm512_mul_ps(scale, row_scale),
                                    y[p][r]);
          if constexpr (kPanel.halves == 2) {
            const __m512i sum = _mm512_dpwssd_epi32(_mm512_setzero_si512(), ones,
                                                    BroadcastDword(sums + r * tile.x.sum_stride));
            const __m512 minimum = LoadHalves(halves + kHalvesBytes);
            y[p][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(minimum, row_scale),
                                      y[p][r]);
          }
        }
      }
      if constexpr (kRows * kPanels > 8) KeepInMemory(y);
    }
    StoreResults(y, tile);
  }
};

template <typename Lines>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<BlockKernel<Lines>>(PanelSize(Lines::kPanel, x.inputs), panels, panel_count,
                                    output_count, x, out, out_stride);
}

}  // namespace

const ProductKernels kAvx512Products = {
    .f32 = avx512::MultiplyF32,
    .f16 = avx512::MultiplyF16,
    .bf16 = avx512::MultiplyBF16,
    .q8_0 = Multiply<Q8_0Lines>,
    .q4_0 = Multiply<Q4_0Lines>,
    .q4_1 = Multiply<Q4_1Lines>,
    .q5_0 = Multiply<Q5_0Lines>,
    .q5_1 = Multiply<Q5_1Lines>,
    .iq4_nl = Multiply<IQ4_NLLines>,
    .mxfp4 = Multiply<MXFP4Lines>,
    .q4_k = avx512::MultiplyQ4_K,
    .q5_k = avx512::MultiplyQ5_K,
    .q6_k = avx512::MultiplyQ6_K,
    .q2_k = avx512::MultiplyQ2_K,
    .q3_k = avx512::MultiplyQ3_K,
    .iq4_xs = avx512::MultiplyIQ4_XS,
};

}  // namespace outrider
