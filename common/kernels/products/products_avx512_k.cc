// The types in super-blocks of 256 with AVX-512 VNNI. Everything is an exact integer until a
// super-block is done: vpdpbusd over a sub-block, vpmulld by its integer scale.
//
// Registers, of 32: 8 for weights, an integer and a result per row. With two panels their
// super-blocks take turns, so only the results double.
#include "common/kernels/products/avx512_k_lanes.h"
#include "common/kernels/products/products_avx512.h"

namespace outrider {
namespace {

// What is fetched while a super-block is multiplied: lines of the next one into the first-level cache,
// and of one that comes a while later into the second.
struct Ahead {
  const std::byte* near;
  const std::byte* far;
};

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

// A sub-block's dots start at minus the offset times the sum of the activations.
template <typename Lines>
struct SuperBlock {
  using Bytes = Fours<Lines::kWidth>;

  // Elements 32j..32j+31 are one sub-block.
  template <int j, int kRows>
  static inline void AddOne(const __m512i (&w)[8], const Bytes& scales, const RowBlock (&x)[kRows],
                            __m512i (&dots)[kRows]) {
    const __m512i scale = SignedByteOf<j % 4>(scales.of[j / 4]);
    const __m512i offset = _mm512_set1_epi16(-Lines::kOffset);
    __m512i dot[kRows];
    for (int r = 0; r < kRows; ++r) {
      dot[r] = _mm512_setzero_si512();
      if constexpr (Lines::kOffset != 0) {
        dot[r] = _mm512_dpwssd_epi32(dot[r], offset, BroadcastDword(x[r].sums + 2 * j));
      }
    }
    for (int t = 0; t < 8; ++t) {
      for (int r = 0; r < kRows; ++r) {
        dot[r] = _mm512_dpbusd_epi32(dot[r], w[t], BroadcastDword(x[r].quants + 32 * j + 4 * t));
      }
    }
    for (int r = 0; r < kRows; ++r) {
      dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(dot[r], scale));
    }
  }

  // They are two: the offset picks the even or the odd of two neighbouring sums.
  template <int j, int kRows>
  static inline void AddTwo(const __m512i (&w)[8], const Bytes& scales, const RowBlock (&x)[kRows],
                            __m512i (&dots)[kRows]) {
    const __m512i scale0 = SignedByteOf<2 * (j % 2)>(scales.of[j / 2]);
    const __m512i scale1 = SignedByteOf<2 * (j % 2) + 1>(scales.of[j / 2]);
    const __m512i even = _mm512_set1_epi32(-Lines::kOffset & 0xffff);
    const __m512i odd = _mm512_set1_epi32(-Lines::kOffset * 65536);
    for (int r = 0; r < kRows; ++r) {
      __m512i dot0 = _mm512_setzero_si512();
      __m512i dot1 = _mm512_setzero_si512();
      if constexpr (Lines::kOffset != 0) {
        const __m512i sums = BroadcastDword(x[r].sums + 2 * j);
        dot0 = _mm512_dpwssd_epi32(dot0, even, sums);
        dot1 = _mm512_dpwssd_epi32(dot1, odd, sums);
      }
      const int8_t* const quants = x[r].quants + 32 * j;
      for (int t = 0; t < 4; ++t) {
        dot0 = _mm512_dpbusd_epi32(dot0, w[t], BroadcastDword(quants + 4 * t));
        dot1 = _mm512_dpbusd_epi32(dot1, w[t + 4], BroadcastDword(quants + 16 + 4 * t));
      }
      dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(dot0, scale0));
      dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(dot1, scale1));
    }
  }

  template <int j, int kRows>
  static inline void Add(const std::byte* lines, const Ahead& ahead, const Bytes& scales,
                         const Bytes& minima, const RowBlock (&x)[kRows], __m512i (&dots)[kRows],
                         __m512i (&mins)[kRows]) {
    __m512i w[8];
    FetchEighth<Lines::kPanel, j>(ahead.near);
    FetchEighthFar<Lines::kPanel, j>(ahead.far);
    Lines::template Load<j>(lines, w);
    if constexpr (Lines::kWidth == 32) {
      AddOne<j>(w, scales, x, dots);
    } else {
      AddTwo<j>(w, scales, x, dots);
    }
    if constexpr (Lines::kMinima) {
      const __m512i min = Lines::kWidth == 32 ? TwiceByte(minima.of[j / 4], j % 4)
                                              : TwoBytes(minima.of[j / 2], 2 * (j % 2));
      for (int r = 0; r < kRows; ++r) {
        mins[r] = _mm512_dpwssd_epi32(mins[r], min, BroadcastDword(x[r].sums + 2 * j));
      }
    }
  }

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, const Ahead& ahead,
                              const RowBlock (&x)[kRows], __m512 (&y)[kRows]) {
    __m512i dots[kRows];
    __m512i mins[kRows];
    for (int r = 0; r < kRows; ++r) dots[r] = mins[r] = _mm512_setzero_si512();
    Bytes scales;
    Bytes minima;
    Lines::LoadScales(lines, halves, scales, minima);
    Add<0>(lines, ahead, scales, minima, x, dots, mins);
    Add<1>(lines, ahead, scales, minima, x, dots, mins);
    Add<2>(lines, ahead, scales, minima, x, dots, mins);
    Add<3>(lines, ahead, scales, minima, x, dots, mins);
    Add<4>(lines, ahead, scales, minima, x, dots, mins);
    Add<5>(lines, ahead, scales, minima, x, dots, mins);
    Add<6>(lines, ahead, scales, minima, x, dots, mins);
    Add<7>(lines, ahead, scales, minima, x, dots, mins);
    const __m512 d = LoadHalves(halves);
    for (int r = 0; r < kRows; ++r) {
      const __m512 row_scale = _mm512_set1_ps(x[r].scale);
      y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), _mm512_mul_ps(d, row_scale), y[r]);
      if constexpr (Lines::kMinima) {
        // Negated as an integer, as NUMERICS.md has it: a fused subtraction would add -0 for a 0.
        const __m512i minus = _mm512_sub_epi32(_mm512_setzero_si512(), mins[r]);
        const __m512 dmin = LoadHalves(halves + kHalvesBytes);
        y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(minus), _mm512_mul_ps(dmin, row_scale), y[r]);
      }
    }
  }
};

template <typename Lines>
struct SuperBlockKernel {
  static constexpr uint32_t kRowsMax = 8;
  static constexpr uint32_t kPairRowsMax = 4;
  static constexpr QuantPanel kPanel = Lines::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;
  static constexpr size_t kBlockHalves = kPanel.halves * kHalvesBytes;
  // In the order in which they are multiplied: two panels take turns.
  static constexpr uint32_t kFarBlocks = 2 * kFarAhead / kBlockBytes;

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
        const std::byte* const panel = tile.panels + p * tile.panel_size;
        const std::byte* const next = tile.next_panels + p * tile.panel_size;
        // Of this panel, or beyond its end of the next.
        const auto lines = [&](uint32_t block) {
          return block < block_count ? panel + block * kBlockBytes
                                     : next + (block - block_count) * kBlockBytes;
        };
        const auto halves = [&](uint32_t block) {
          return block < block_count ? panel + halves_offset + block * kBlockHalves
                                     : next + halves_offset + (block - block_count) * kBlockHalves;
        };
        Fetch(halves(b + 4));
        const Ahead ahead = {.near = lines(b + 1), .far = lines(b + kFarBlocks)};
        SuperBlock<Lines>::AddBlock(lines(b), halves(b), ahead, x, y[p]);
      }
    }
    StoreResults(y, tile);
  }
};

template <typename Lines>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<SuperBlockKernel<Lines>>(PanelSize(Lines::kPanel, x.inputs), panels, panel_count,
                                         output_count, x, out, out_stride);
}

}  // namespace

namespace avx512 {

OUTRIDER_DEFINE_PRODUCT(MultiplyQ4_K, Multiply<Q4_KLines>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ5_K, Multiply<Q5_KLines>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ6_K, Multiply<Q6_KLines>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ2_K, Multiply<Q2_KLines>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ3_K, Multiply<Q3_KLines>)
OUTRIDER_DEFINE_PRODUCT(MultiplyIQ4_XS, Multiply<IQ4_XSLines>)

}  // namespace avx512
}  // namespace outrider
