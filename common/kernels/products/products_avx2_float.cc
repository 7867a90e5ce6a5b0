// F32, F16 and BF16 with AVX2. Registers, of 16: two sums per row, four rows: 8. (The results wait
// in memory while a segment is summed.)
#include "common/kernels/lanes/lanes_avx2.h"
#include "common/kernels/products/products_avx2.h"
#include "common/kernels/products/products_float.h"

namespace outrider {
namespace {

struct Registers {
  using Lanes = Avx2Lanes;
  static constexpr uint32_t kRowsMax = 4;
  static constexpr uint32_t kPairRowsMax = 0;
};

}  // namespace

namespace avx2 {

void MultiplyF32(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyFloats<Registers, F32Elements>(panels, panel_count, output_count, x, out, out_stride);
}

void MultiplyF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyFloats<Registers, F16Elements>(panels, panel_count, output_count, x, out, out_stride);
}

void MultiplyBF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyFloats<Registers, BF16Elements>(panels, panel_count, output_count, x, out, out_stride);
}

}  // namespace avx2
}  // namespace outrider
