// F32, F16 and BF16 with AVX2. Registers, of 16: two sums per row, four rows: 8. (The results wait
// in memory while a segment is summed.)
#include "common/kernels/avx2_lanes.h"
#include "common/kernels/products_avx2.h"

namespace outrider {
namespace {

// Element k of eight of sixteen outputs.
struct F32Elements {
  static constexpr size_t kBytes = 4;
  static inline __m256 Load(const std::byte* at, int h) {
    return _mm256_load_ps(reinterpret_cast<const float*>(at) + 8 * h);
  }
};

struct F16Elements {
  static constexpr size_t kBytes = 2;
  static inline __m256 Load(const std::byte* at, int h) { return LoadHalves(at, h); }
};

struct BF16Elements {
  static constexpr size_t kBytes = 2;
  static inline __m256 Load(const std::byte* at, int h) {
    const __m128i halves = _mm_load_si128(reinterpret_cast<const __m128i*>(at + 16 * h));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
};

template <typename Elements>
struct FloatKernel {
  static constexpr uint32_t kRowsMax = 4;
  static constexpr uint32_t kPairRowsMax = 0;
  static constexpr uint32_t kSegment = 32;
  static constexpr size_t kElementBytes = kPanelOutputs * Elements::kBytes;

  template <int kRows>
  static inline void AddSegment(const ProductTile& tile, uint32_t begin, uint32_t count,
                                __m256 (&y)[kRows][2]) {
    __m256 s[kRows][2];
    for (int r = 0; r < kRows; ++r) s[r][0] = s[r][1] = _mm256_setzero_ps();
    const std::byte* at = tile.panels + begin * kElementBytes;
    for (uint32_t k = 0; k < count; ++k, at += kElementBytes) {
      Fetch(at + kFetchAhead);
      const __m256 w0 = Elements::Load(at, 0);
      const __m256 w1 = Elements::Load(at, 1);
      for (int r = 0; r < kRows; ++r) {
        const __m256 x = _mm256_set1_ps(tile.x.values[r * tile.x.value_stride + begin + k]);
        s[r][0] = _mm256_fmadd_ps(w0, x, s[r][0]);
        s[r][1] = _mm256_fmadd_ps(w1, x, s[r][1]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      y[r][0] = _mm256_add_ps(y[r][0], s[r][0]);
      y[r][1] = _mm256_add_ps(y[r][1], s[r][1]);
    }
  }

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    __m256 y[kRows][2];
    for (int r = 0; r < kRows; ++r) y[r][0] = y[r][1] = _mm256_setzero_ps();
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

namespace avx2 {

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

}  // namespace avx2
}  // namespace outrider
