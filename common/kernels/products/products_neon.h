// The NEON kernels of float weights.
#pragma once

#include "common/kernels/kernels.h"

namespace outrider::neon {

PanelProduct MultiplyF32;
PanelProduct MultiplyF16;
PanelProduct MultiplyBF16;

}  // namespace outrider::neon
