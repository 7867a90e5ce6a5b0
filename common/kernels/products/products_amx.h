// The AMX kernels that have files of their own.
#pragma once

#include "common/kernels/kernels.h"

namespace outrider::amx {

PanelProduct MultiplyQ4_K;
PanelProduct MultiplyQ5_K;
PanelProduct MultiplyQ6_K;
PanelProduct MultiplyQ2_K;
PanelProduct MultiplyQ3_K;
PanelProduct MultiplyIQ4_XS;

}  // namespace outrider::amx
