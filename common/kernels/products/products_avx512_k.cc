// Q4_K and Q6_K with AVX-512 VNNI. Everything is an exact integer until a super-block of 256 is
// done: vpdpbusd over a sub-block, vpmulld by its integer scale.
//
// Registers, of 32: 8 for weights, an integer and a result per row. With two panels their
// super-blocks take turns, so only the results double.
#include "common/kernels/products/avx512_k_lanes.h"
#include "common/kernels/products/products_avx512.h"

namespace outrider {
namespace {

struct RowBlock {
  const int8_t* quants;
  const int16_t* sums;
  float scale;
};

static inline RowBlock BlockOf(const ActivationRows& x, int r, uint32_t b) {
  return {.quants = x.quants + r * x.quant_stride + size_t{b} * 256,
          .sums = x.sums + r * x.sum_stride + size_t{b} * 16,
          .scale = x.scales[b * x.scale_stride + r]};
}

struct Q4_K {
  static constexpr QuantPanel kPanel = kQ4_KPanel;

  template <int j, int kRows>
  static inline void AddSubBlock(const std::byte* lines, const std::byte* ahead,
                                 const Q4_KScales& packed, const RowBlock (&x)[kRows],
                                 __m512i (&dots)[kRows], __m512i (&mins)[kRows]) {
    __m512i w[8];
    FetchEighth<kPanel, j>(ahead);
    FetchEighthFar<kPanel, j>(lines);
    LoadQ4_KNibbles<j>(lines, w);
    const __m512i scales = j < 4 ? packed.scales_low : packed.scales_high;
    const __m512i byte = _mm512_set1_epi32(255);
    const __m512i scale = _mm512_and_si512(_mm512_srli_epi32(scales, 8 * (j % 4)), byte);
    const __m512i min = TwiceByte(j < 4 ? packed.mins_low : packed.mins_high, j % 4);
    __m512i dot[kRows];
    for (int r = 0; r < kRows; ++r) dot[r] = _mm512_setzero_si512();
    for (int t = 0; t < 8; ++t) {
      for (int r = 0; r < kRows; ++r) {
        dot[r] = _mm512_dpbusd_epi32(dot[r], w[t], BroadcastDword(x[r].quants + 32 * j + 4 * t));
      }
    }
    for (int r = 0; r < kRows; ++r) {
      dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(dot[r], scale));
      mins[r] = _mm512_dpwssd_epi32(mins[r], min, BroadcastDword(x[r].sums + 2 * j));
    }
  }

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves,
                              const std::byte* ahead, const RowBlock (&x)[kRows],
                              __m512 (&y)[kRows]) {
    __m512i dots[kRows];
    __m512i mins[kRows];
    for (int r = 0; r < kRows; ++r) dots[r] = mins[r] = _mm512_setzero_si512();
    const Q4_KScales packed = LoadQ4_KScales(lines);
    AddSubBlock<0>(lines, ahead, packed, x, dots, mins);
    AddSubBlock<1>(lines, ahead, packed, x, dots, mins);
    AddSubBlock<2>(lines, ahead, packed, x, dots, mins);
    AddSubBlock<3>(lines, ahead, packed, x, dots, mins);
    AddSubBlock<4>(lines, ahead, packed, x, dots, mins);
    AddSubBlock<5>(lines, ahead, packed, x, dots, mins);
    AddSubBlock<6>(lines, ahead, packed, x, dots, mins);
    AddSubBlock<7>(lines, ahead, packed, x, dots, mins);
    const __m512 d = LoadHalves(halves);
    const __m512 dmin = LoadHalves(halves + kHalvesBytes);
    for (int r = 0; r < kRows; ++r) {
      const __m512 row_scale = _mm512_set1_ps(x[r].scale);
      // Negated as an integer, as NUMERICS.md has it: a fused subtraction would add -0 for a 0.
      const __m512i minus = _mm512_sub_epi32(_mm512_setzero_si512(), mins[r]);
      y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), _mm512_mul_ps(d, row_scale), y[r]);
      y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(minus), _mm512_mul_ps(dmin, row_scale), y[r]);
    }
  }
};

struct Q6_K {
  static constexpr QuantPanel kPanel = kQ6_KPanel;

  // Quants are 0..63 here; sub-block dots start at -32 times the sum of the activations. That picks
  // the even or the odd of two neighbouring sums.
  template <int j, int kRows>
  static inline void AddTwoSubBlocks(const std::byte* lines, const std::byte* ahead,
                                     const RowBlock (&x)[kRows], __m512i (&dots)[kRows]) {
    __m512i w[8];
    FetchEighth<kPanel, j>(ahead);
    FetchEighthFar<kPanel, j>(lines);
    LoadQ6_KQuants<j>(lines, w);
    const __m512i scales = LoadLine(lines + (kQ6_KScaleLine + j / 2) * kLineBytes);
    // Signed byte 2 (j % 2) of every dword, and the one after it: up to the top, and down again.
    const __m512i scale0 = _mm512_srai_epi32(_mm512_slli_epi32(scales, 24 - 16 * (j % 2)), 24);
    const __m512i scale1 = _mm512_srai_epi32(_mm512_slli_epi32(scales, 16 - 16 * (j % 2)), 24);
    const __m512i even = _mm512_set1_epi32(-32 & 0xffff);
    const __m512i odd = _mm512_set1_epi32(-32 * 65536);
    for (int r = 0; r < kRows; ++r) {
      const __m512i sums = BroadcastDword(x[r].sums + 2 * j);
      __m512i dot0 = _mm512_dpwssd_epi32(_mm512_setzero_si512(), even, sums);
      __m512i dot1 = _mm512_dpwssd_epi32(_mm512_setzero_si512(), odd, sums);
      const int8_t* const quants = x[r].quants + 32 * j;
      for (int t = 0; t < 4; ++t) {
        dot0 = _mm512_dpbusd_epi32(dot0, w[t], BroadcastDword(quants + 4 * t));
        dot1 = _mm512_dpbusd_epi32(dot1, w[t + 4], BroadcastDword(quants + 16 + 4 * t));
      }
      dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(dot0, scale0));
      dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(dot1, scale1));
    }
  }

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves,
                              const std::byte* ahead, const RowBlock (&x)[kRows],
                              __m512 (&y)[kRows]) {
    __m512i dots[kRows];
    for (int r = 0; r < kRows; ++r) dots[r] = _mm512_setzero_si512();
    AddTwoSubBlocks<0>(lines, ahead, x, dots);
    AddTwoSubBlocks<1>(lines, ahead, x, dots);
    AddTwoSubBlocks<2>(lines, ahead, x, dots);
    AddTwoSubBlocks<3>(lines, ahead, x, dots);
    AddTwoSubBlocks<4>(lines, ahead, x, dots);
    AddTwoSubBlocks<5>(lines, ahead, x, dots);
    AddTwoSubBlocks<6>(lines, ahead, x, dots);
    AddTwoSubBlocks<7>(lines, ahead, x, dots);
    const __m512 d = LoadHalves(halves);
    for (int r = 0; r < kRows; ++r) {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x[r].scale));
      y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), scale, y[r]);
    }
  }
};

template <typename Type>
struct SuperBlockKernel {
  static constexpr uint32_t kRowsMax = 8;
  static constexpr uint32_t kPairRowsMax = 4;
  static constexpr QuantPanel kPanel = Type::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    const size_t halves_offset = HalvesOffset(kPanel, tile.x.inputs);
    __m512 y[kPanels][kRows];
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < kRows; ++r) y[p][r] = _mm512_setzero_ps();
    }
    for (uint32_t b = 0; b < block_count; ++b) {
      RowBlock x[kRows];
      for (int r = 0; r < kRows; ++r) x[r] = BlockOf(tile.x, r, b);
      for (int p = 0; p < kPanels; ++p) {
        // A super-block ahead.
        const std::byte* const lines = tile.panels + p * tile.panel_size + b * kBlockBytes;
        const std::byte* const ahead =
            b + 1 < block_count ? lines + kBlockBytes : tile.next_panels + p * tile.panel_size;
        const std::byte* const halves = tile.panels + p * tile.panel_size + halves_offset +
                                        size_t{b} * (kPanel.halves * kHalvesBytes);
        Fetch(halves + 2 * kLineBytes);
        Type::AddBlock(lines, halves, ahead, x, y[p]);
      }
    }
    StoreResults(y, tile);
  }
};

}  // namespace

namespace avx512 {

void MultiplyQ4_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<SuperBlockKernel<Q4_K>>(PanelSize(kQ4_KPanel, x.inputs), panels, panel_count,
                                        output_count, x, out, out_stride);
}

void MultiplyQ6_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<SuperBlockKernel<Q6_K>>(PanelSize(kQ6_KPanel, x.inputs), panels, panel_count,
                                        output_count, x, out, out_stride);
}

}  // namespace avx512
}  // namespace outrider
