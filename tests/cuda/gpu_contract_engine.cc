#include <utility>

#include "common/base/status.h"
#include "common/cuda/gpu_engine.h"
#include "common/engine/engine_target.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/engine/contract_engine.h"
#include "tests/engine/contract_target.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Engine>> MakeGpuEngine(const std::string& path,
                                                      const EngineOptions& options,
                                                      ThreadPool& pool,
                                                      std::unique_ptr<DeviceQueue> queue) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, path));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(*model, spec, path, pool, nullptr));
  return GpuEngine::Create(spec, *weights, {.kernels = KernelsFor(BestIsa()), .pool = pool},
                           options, std::move(queue));
}

absl::StatusOr<std::unique_ptr<Engine>> MakeContractEngine(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> queue, OpenQueue());
  return MakeGpuEngine(path, options, pool, std::move(queue));
}

absl::StatusOr<std::unique_ptr<Target>> MakeContractTarget(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                            MakeContractEngine(path, options, pool));
  return EngineTarget::Create(std::move(engine));
}

}  // namespace outrider
