// Q8_0 and Q4_0 with AVX-512 VNNI, and the table.
//
// vpdpbusd multiplies unsigned by signed bytes. The weights are made the unsigned side by adding
// 128 or 8; the integer accumulator starts at -128 or -8 times the sum of the activations, so that
// the block's integer comes out exact and signed.
//
// Registers, of 32: the weights of a block take 8 a panel, results one per row and panel.
//   2 panels, 4 rows: 16 + 8, and 8 for accumulators and scales; 1 panel, 8 rows: 8 + 8.
#include "common/kernels/products_avx512.h"
#include "common/kernels/avx512_lanes.h"
#include "common/kernels/product_tables.h"

namespace outrider {
namespace {

// The 32 weights of a block of 16 outputs as unsigned bytes: vector t is k = 4t..4t+3.
struct Q4_0Lines {
  static constexpr QuantPanel kPanel = kQ4_0Panel;
  static constexpr int kOffset = 8;

  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int t = 0; t < 4; ++t) {
      const __m512i line = LoadLine(lines + t * kLineBytes);
      w[t] = _mm512_and_si512(line, low);
      w[t + 4] = _mm512_and_si512(_mm512_srli_epi16(line, 4), low);
    }
  }
};

struct Q8_0Lines {
  static constexpr QuantPanel kPanel = kQ8_0Panel;
  static constexpr int kOffset = 128;

  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    const __m512i sign = _mm512_set1_epi8(-128);
    for (int t = 0; t < 8; ++t) w[t] = _mm512_xor_si512(LoadLine(lines + t * kLineBytes), sign);
  }
};

template <typename Lines>
struct BlockKernel {
  static constexpr uint32_t kRowsMax = 8;
  static constexpr uint32_t kPairRowsMax = 4;
  static constexpr QuantPanel kPanel = Lines::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    const size_t halves_offset = HalvesOffset(kPanel, tile.x.inputs);
    const uint32_t fetch_blocks = kFetchAhead / kBlockBytes;
    const __m512i offsets = _mm512_set1_epi16(-Lines::kOffset);

    __m512 y[kPanels][kRows];
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < kRows; ++r) y[p][r] = _mm512_setzero_ps();
    }
    const std::byte* ahead = tile.panels + kFetchAhead;
    for (uint32_t b = 0; b < block_count; ++b, ahead += kBlockBytes) {
      if (b + fetch_blocks == block_count) ahead = tile.next_panels;
      __m512i w[kPanels][8];
      __m512 scale[kPanels];
      for (int p = 0; p < kPanels; ++p) {
        const std::byte* const panel = tile.panels + p * tile.panel_size;
        FetchLines<kPanel.lines>(ahead + p * tile.panel_size);
        const std::byte* const halves = panel + halves_offset + size_t{b} * kHalvesBytes;
        Lines::Load(panel + b * kBlockBytes, w[p]);
        scale[p] = LoadHalves(halves);
      }
      // Rows and panels take turns at every step, so that their chains of five-cycle vpdpbusd
      // overlap.
      const int8_t* const quants = tile.x.quants + size_t{b} * 32;
      const int16_t* const sums = tile.x.sums + size_t{b} * 2;
      __m512i dot[kPanels][kRows];
      for (int r = 0; r < kRows; ++r) {
        dot[0][r] = _mm512_dpwssd_epi32(_mm512_setzero_si512(), offsets,
                                        BroadcastDword(sums + r * tile.x.sum_stride));
        for (int p = 1; p < kPanels; ++p) dot[p][r] = dot[0][r];
      }
      for (int t = 0; t < 8; ++t) {
        for (int r = 0; r < kRows; ++r) {
          const __m512i x = BroadcastDword(quants + r * tile.x.quant_stride + 4 * t);
          for (int p = 0; p < kPanels; ++p) dot[p][r] = _mm512_dpbusd_epi32(dot[p][r], w[p][t], x);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        const __m512 row_scale = _mm512_set1_ps(tile.x.scales[b * tile.x.scale_stride + r]);
        for (int p = 0; p < kPanels; ++p) {
          y[p][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][r]),
                                    _mm512_mul_ps(scale[p], row_scale), y[p][r]);
        }
      }
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
    .q4_k = avx512::MultiplyQ4_K,
    .q6_k = avx512::MultiplyQ6_K,
};

}  // namespace outrider
