// What kernels take of a GPU, and how fast its products are.
#pragma once

#include "absl/status/status.h"

namespace outrider {

absl::Status PrintSpeed();

}  // namespace outrider
