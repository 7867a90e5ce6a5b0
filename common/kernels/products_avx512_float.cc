// F32, F16 and BF16 with AVX-512. Sums of 32 elements start afresh (NUMERICS.md, section 4), so the
// next segment's chain of fmas runs beside this one's: four cycles of latency cost nothing even for
// one row.
//
// Registers, of 32: a sum and a result per row and panel. 2 panels, 4 rows: 16; 1 panel, 8
// rows: 16.
#include "common/kernels/avx512_lanes.h"
#include "common/kernels/products_avx512.h"

namespace outrider {
namespace {

// The element k of sixteen outputs.
struct F32Elements {
  static constexpr size_t kBytes = 4;
  static inline __m512 Load(const std::byte* at) { return _mm512_load_ps(at); }
};

struct F16Elements {
  static constexpr size_t kBytes = 2;
  static inline __m512 Load(const std::byte* at) { return LoadHalves(at); }
};

struct BF16Elements {
  static constexpr size_t kBytes = 2;
  static inline __m512 Load(const std::byte* at) {
    const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
};

template <typename Elements>
struct FloatKernel {
  static constexpr uint32_t kRowsMax = 8;
  static constexpr uint32_t kPairRowsMax = 4;
  static constexpr uint32_t kSegment = 32;
  static constexpr size_t kElementBytes = kPanelOutputs * Elements::kBytes;

  template <int kRows, int kPanels>
  static inline void AddSegment(const ProductTile& tile, uint32_t begin, uint32_t count,
                                __m512 (&y)[kPanels][kRows]) {
    __m512 s[kPanels][kRows];
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < kRows; ++r) s[p][r] = _mm512_setzero_ps();
    }
    const std::byte* const first = tile.panels + begin * kElementBytes;
    for (uint32_t k = 0; k < count; ++k) {
      __m512 w[kPanels];
      for (int p = 0; p < kPanels; ++p) {
        const std::byte* const at = first + k * kElementBytes + p * tile.panel_size;
        if (k * kElementBytes % kLineBytes == 0) Fetch(at + kFetchAhead);
        w[p] = Elements::Load(at);
      }
      for (int r = 0; r < kRows; ++r) {
        const __m512 x = _mm512_set1_ps(tile.x.values[r * tile.x.value_stride + begin + k]);
        for (int p = 0; p < kPanels; ++p) s[p][r] = _mm512_fmadd_ps(w[p], x, s[p][r]);
      }
    }
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < kRows; ++r) y[p][r] = _mm512_add_ps(y[p][r], s[p][r]);
    }
  }

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    __m512 y[kPanels][kRows];
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < kRows; ++r) y[p][r] = _mm512_setzero_ps();
    }
    uint32_t begin = 0;
    for (; tile.x.inputs - begin >= kSegment; begin += kSegment) {
      AddSegment(tile, begin, kSegment, y);
    }
    if (begin < tile.x.inputs) AddSegment(tile, begin, tile.x.inputs - begin, y);
    StoreResults(y, tile);
  }
};

template <typename Elements>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<FloatKernel<Elements>>(PlainPanelSize(Elements::kBytes, x.inputs), panels,
                                       panel_count, output_count, x, out, out_stride);
}

}  // namespace

namespace avx512 {

void MultiplyF32(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride) {
  Multiply<F32Elements>(panels, panel_count, output_count, x, out, out_stride);
}

void MultiplyF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride) {
  Multiply<F16Elements>(panels, panel_count, output_count, x, out, out_stride);
}

void MultiplyBF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  Multiply<BF16Elements>(panels, panel_count, output_count, x, out, out_stride);
}

}  // namespace avx512
}  // namespace outrider
