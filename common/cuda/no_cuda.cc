// The honest stand-in where the CUDA toolkit was not found at build time.
#include "common/base/status.h"
#include "common/cuda/cuda_engine.h"
#include "common/cuda/devices.h"

namespace outrider {
namespace {

absl::Status NoCuda() {
  return FailedPrecondition(
      "this build has no GPU support: install the CUDA toolkit and build again");
}

}  // namespace

absl::StatusOr<std::vector<CudaDevice>> CudaDevices() {
  return NoCuda();
}

absl::StatusOr<std::unique_ptr<Engine>> LoadCudaEngine(const ModelFile&, const std::string&,
                                                       uint32_t, const EngineOptions&,
                                                       const Kernels&, ThreadPool&,
                                                       const LoadProgress&) {
  return NoCuda();
}

}  // namespace outrider
