// F32, F16 and BF16 on any Armv8. Registers, of 32: four sums per row, four rows: 16. (The results
// wait in memory while a segment is summed.)
#include "common/kernels/neon_lanes.h"
#include "common/kernels/products_neon.h"

namespace outrider {
namespace {

// Element k of four of sixteen outputs.
struct F32Elements {
  static constexpr size_t kBytes = 4;
  static inline float32x4_t Load(const std::byte* at, int g) {
    return vld1q_f32(reinterpret_cast<const float*>(at) + 4 * g);
  }
};

struct F16Elements {
  static constexpr size_t kBytes = 2;
  static inline float32x4_t Load(const std::byte* at, int g) { return LoadHalves(at, g); }
};

struct BF16Elements {
  static constexpr size_t kBytes = 2;
  static inline float32x4_t Load(const std::byte* at, int g) {
    const uint16x4_t halves = vld1_u16(reinterpret_cast<const uint16_t*>(at) + 4 * g);
    return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
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
                                float32x4_t (&y)[kRows][kGroups]) {
    float32x4_t s[kRows][kGroups];
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) s[r][g] = vdupq_n_f32(0);
    }
    const std::byte* at = tile.panels + begin * kElementBytes;
    for (uint32_t k = 0; k < count; ++k, at += kElementBytes) {
      Fetch(at + kFetchAhead);
      for (int g = 0; g < kGroups; ++g) {
        const float32x4_t w = Elements::Load(at, g);
        for (int r = 0; r < kRows; ++r) {
          s[r][g] = vfmaq_n_f32(s[r][g], w, tile.x.values[r * tile.x.value_stride + begin + k]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) y[r][g] = vaddq_f32(y[r][g], s[r][g]);
    }
  }

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    float32x4_t y[kRows][kGroups];
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) y[r][g] = vdupq_n_f32(0);
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

namespace neon {

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

}  // namespace neon
}  // namespace outrider
