// The honest stand-in where the CUDA toolkit was not found at build time.
#include "common/base/status.h"
#include "common/cuda/devices.h"

namespace outrider {

absl::StatusOr<std::vector<CudaDevice>> CudaDevices() {
  return FailedPrecondition(
      "this build has no GPU support: install the CUDA toolkit and build again");
}

}  // namespace outrider
