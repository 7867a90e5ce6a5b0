// The product kernels of each instruction set (kernels.h), as kernels.cc puts them together. Each
// table is defined in products_<isa>.cc, and is to be used only where isa.h finds that processor.
#pragma once

#include "common/kernels/kernels.h"

namespace outrider {

extern const ProductKernels kScalarProducts;
extern const ProductKernels kAvx2Products;
extern const ProductKernels kAvx512Products;
extern const ProductKernels kAmxProducts;
extern const ProductKernels kDotprodProducts;
extern const ProductKernels kI8mmProducts;

}  // namespace outrider
