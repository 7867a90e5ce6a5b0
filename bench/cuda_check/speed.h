// What kernels take of a GPU, and how fast its products are.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace outrider {

absl::Status PrintSpeed();

// Bytes a second of a copy on the device, read and written.
absl::StatusOr<double> CopyBandwidth();

}  // namespace outrider
