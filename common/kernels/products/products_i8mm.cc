// The integer types on Armv8.2 with i8mm, and the table. One smmla multiplies eight elements of two
// outputs by eight activations of two rows, twice what sdot does; a row without a partner takes
// sdot.
#include "common/kernels/products/neon_quants.h"
#include "common/kernels/products/product_tables.h"

namespace outrider {
namespace {

struct Smmla {
  template <int kVectors, int kRows>
  static inline void Add(const int8x16_t (&w)[kVectors], const int8_t* const (&quants)[kRows],
                         int32x4_t (&dots)[kRows]) {
    for (int r = 0; r + 1 < kRows; r += 2)
      AddTwoRows(w, quants[r], quants[r + 1], dots[r], dots[r + 1]);
    if constexpr (kRows % 2 == 1) AddRow(w, quants[kRows - 1], dots[kRows - 1]);
  }

  template <int kVectors>
  static inline void AddTwoRows(const int8x16_t (&w)[kVectors], const int8_t* quants0,
                                const int8_t* quants1, int32x4_t& dots0, int32x4_t& dots1) {
    // [row 0 output 0, row 0 output 1, row 1 output 0, row 1 output 1], and outputs 2 and 3.
    int32x4_t dots01 = vdupq_n_s32(0);
    int32x4_t dots23 = vdupq_n_s32(0);
    for (int t = 0; t < kVectors; t += 2) {
      const int8x16_t x = vcombine_s8(vld1_s8(quants0 + 4 * t), vld1_s8(quants1 + 4 * t));
      // Two vectors of four elements of four outputs to two of eight elements of two outputs.
      const int32x4_t even = vreinterpretq_s32_s8(w[t]);
      const int32x4_t odd = vreinterpretq_s32_s8(w[t + 1]);
      dots01 = vmmlaq_s32(dots01, x, vreinterpretq_s8_s32(vzip1q_s32(even, odd)));
      dots23 = vmmlaq_s32(dots23, x, vreinterpretq_s8_s32(vzip2q_s32(even, odd)));
    }
    dots0 = vaddq_s32(dots0, vcombine_s32(vget_low_s32(dots01), vget_low_s32(dots23)));
    dots1 = vaddq_s32(dots1, vcombine_s32(vget_high_s32(dots01), vget_high_s32(dots23)));
  }

  template <int kVectors>
  static inline void AddRow(const int8x16_t (&w)[kVectors], const int8_t* quants, int32x4_t& dots) {
    for (int t = 0; t < kVectors; t += 4) {
      const int8x16_t x = vld1q_s8(quants + 4 * t);
      dots = vdotq_laneq_s32(dots, w[t], x, 0);
      dots = vdotq_laneq_s32(dots, w[t + 1], x, 1);
      dots = vdotq_laneq_s32(dots, w[t + 2], x, 2);
      dots = vdotq_laneq_s32(dots, w[t + 3], x, 3);
    }
  }
};

}  // namespace

const ProductKernels kI8mmProducts = NeonProducts<Smmla>();

}  // namespace outrider
