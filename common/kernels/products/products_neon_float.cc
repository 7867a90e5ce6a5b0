// F32, F16 and BF16 on any Armv8. Registers, of 32: four sums per row, four rows: 16. (The results
// wait in memory while a segment is summed.)
#include "common/kernels/lanes/lanes_neon.h"
#include "common/kernels/products/products_float.h"
#include "common/kernels/products/products_neon.h"

namespace outrider {
namespace {

struct Registers {
  using Lanes = NeonLanes;
  static constexpr uint32_t kRowsMax = 4;
  static constexpr uint32_t kPairRowsMax = 0;
};

}  // namespace

namespace neon {

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

}  // namespace neon
}  // namespace outrider
