// The integer types on Armv8.2 with dotprod, and the table. One sdot multiplies four elements of
// four outputs by four activations, which it picks from a register of sixteen.
#include "common/kernels/products/neon_quants.h"
#include "common/kernels/products/product_tables.h"

namespace outrider {
namespace {

struct Sdot {
  template <int kVectors, int kRows>
  static inline void Add(const int8x16_t (&w)[kVectors], const int8_t* const (&quants)[kRows],
                         int32x4_t (&dots)[kRows]) {
    for (int t = 0; t < kVectors; t += 4) {
      for (int r = 0; r < kRows; ++r) {
        const int8x16_t x = vld1q_s8(quants[r] + 4 * t);
        dots[r] = vdotq_laneq_s32(dots[r], w[t], x, 0);
        dots[r] = vdotq_laneq_s32(dots[r], w[t + 1], x, 1);
        dots[r] = vdotq_laneq_s32(dots[r], w[t + 2], x, 2);
        dots[r] = vdotq_laneq_s32(dots[r], w[t + 3], x, 3);
      }
    }
  }
};

}  // namespace

const ProductKernels kDotprodProducts = NeonProducts<Sdot>();

}  // namespace outrider
