#include "common/cuda/cuda_status.h"

#include "common/base/status.h"

namespace outrider {

absl::Status CudaStatus(cudaError_t error, std::string_view context) {
  switch (error) {
    case cudaSuccess:
      return absl::OkStatus();
    case cudaErrorNoDevice:
      return FailedPrecondition(context, ": this machine has no NVIDIA GPU");
    case cudaErrorInsufficientDriver: {
      int version = 0;
      cudaDriverGetVersion(&version);
      if (version == 0) {
        return FailedPrecondition(context, ": no NVIDIA driver is installed");
      }
      return FailedPrecondition(context, ": the NVIDIA driver knows CUDA ", version / 1000, ".",
                                version % 1000 / 10, ", and this build needs ",
                                CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10,
                                "; install a newer driver");
    }
    case cudaErrorNoKernelImageForDevice:
      return FailedPrecondition(context,
                                ": this build has no kernels for it; they are compiled for the "
                                "architectures of OUTRIDER_CUDA_ARCHITECTURES");
    case cudaErrorMemoryAllocation:
      return ResourceExhausted(context, ": the GPU is out of memory");
    default:
      return absl::UnavailableError(
          Concat(context, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
  }
}

}  // namespace outrider
