// The AVX-512 kernels that have files of their own.
#pragma once

#include "common/kernels/kernels.h"

namespace outrider::avx512 {

PanelProduct MultiplyF32;
PanelProduct MultiplyF16;
PanelProduct MultiplyBF16;
PanelProduct MultiplyQ4_K;
PanelProduct MultiplyQ5_K;
PanelProduct MultiplyQ6_K;
PanelProduct MultiplyQ2_K;
PanelProduct MultiplyQ3_K;
PanelProduct MultiplyIQ4_XS;

}  // namespace outrider::avx512
