// The AMX kernels that have files of their own.
#pragma once

#include "common/kernels/kernels.h"

namespace outrider::amx {

PanelProduct MultiplyQ4_K;
PanelProduct MultiplyQ6_K;

}  // namespace outrider::amx
