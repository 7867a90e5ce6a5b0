#include "common/cuda/devices.h"

#include <cuda_runtime_api.h>

#include "common/base/status.h"
#include "common/cuda/cuda_status.h"

namespace outrider {
absl::StatusOr<std::vector<CudaDevice>> CudaDevices() {
  int count = 0;
  OUTRIDER_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "CUDA"));
  std::vector<CudaDevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties;
    OUTRIDER_RETURN_IF_ERROR(
        CudaStatus(cudaGetDeviceProperties(&properties, ordinal), Concat("GPU ", ordinal)));
    devices.push_back({.ordinal = ordinal,
                       .name = properties.name,
                       .compute_capability = properties.major * 10 + properties.minor,
                       .memory_bytes = properties.totalGlobalMem});
  }
  return devices;
}

}  // namespace outrider
