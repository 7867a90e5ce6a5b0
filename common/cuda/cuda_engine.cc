#include "common/cuda/cuda_engine.h"

#include <utility>

#include "common/base/status.h"
#include "common/cuda/cuda_queue.h"
#include "common/cuda/gpu_engine.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Engine>> LoadCudaEngine(const ModelFile& model,
                                                       const std::string& path, uint32_t ordinal,
                                                       const EngineOptions& options,
                                                       const Kernels& kernels, ThreadPool& pool,
                                                       const LoadProgress& progress) {
  // What is refused is refused before a model is loaded.
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> queue, OpenCudaQueue(ordinal));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(model, path));
  OUTRIDER_RETURN_IF_ERROR(CheckOptions(spec, options).status());
  OUTRIDER_RETURN_IF_ERROR(DeviceWeights::Check(spec));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(model, spec, path, pool, progress));
  return GpuEngine::Create(spec, *weights, {.kernels = kernels, .pool = pool}, options,
                           std::move(queue));
}

}  // namespace outrider
