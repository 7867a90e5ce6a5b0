// The row kernels of each instruction set, by name: what KernelsFor() hands out (kernels.cc) and
// what tests hold side by side. Only those the build's processor family has are defined.
#pragma once

#include "common/kernels/kernels.h"

namespace outrider {

extern const RowKernels kScalarRows;  // rows_ref.cc: the definition
extern const RowKernels kAvx2Rows;    // AVX2, FMA, F16C
extern const RowKernels kAvx512Rows;  // AVX-512 F BW DQ VL; for kAmx too
extern const RowKernels kNeonRows;    // any Armv8; for kDotprod and kI8mm

}  // namespace outrider
