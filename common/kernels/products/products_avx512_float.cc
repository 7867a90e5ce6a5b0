// F32, F16 and BF16 with AVX-512. Registers, of 32: a sum and a result per row and panel. 2 panels,
// 4 rows: 16; 1 panel, 8 rows: 16.
#include "common/kernels/lanes/lanes_avx512.h"
#include "common/kernels/products/products_avx512.h"
#include "common/kernels/products/products_float.h"

namespace outrider {
namespace {

struct Registers {
  using Lanes = Avx512Lanes;
  static constexpr uint32_t kRowsMax = 8;
  static constexpr uint32_t kPairRowsMax = 4;
};

}  // namespace

namespace avx512 {

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

}  // namespace avx512
}  // namespace outrider
