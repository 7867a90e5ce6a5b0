// The GPUs this process can use. FailedPrecondition, saying why, when the build or the machine has
// none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider {

struct CudaDevice {
  int ordinal;
  std::string name;
  int compute_capability;  // 90 for 9.0
  uint64_t memory_bytes;
};

absl::StatusOr<std::vector<CudaDevice>> CudaDevices();

}  // namespace outrider
