#include "common/kernels/kernels.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/kernels/isa.h"
#include "common/kernels/products/product_tables.h"
#include "common/kernels/rows/row_tables.h"

namespace outrider {

const Kernels& KernelsFor(Isa isa) {
  OUTRIDER_CHECK(std::ranges::find(SupportedIsas(), isa) != SupportedIsas().end(),
                 "kernels are asked for only where they run");
  static const Kernels kernels[] = {
    {Isa::kScalar, kScalarProducts, kScalarRows},
#if defined(__x86_64__)
    {Isa::kAvx2, kAvx2Products, kAvx2Rows},
    {Isa::kAvx512, kAvx512Products, kAvx512Rows},
    {Isa::kAmx, kAmxProducts, kAvx512Rows},
#elif defined(__aarch64__)
    {Isa::kDotprod, kDotprodProducts, kNeonRows},
    {Isa::kI8mm, kI8mmProducts, kNeonRows},
#endif
  };
  return *std::ranges::find(kernels, isa, &Kernels::isa);
}

}  // namespace outrider
