#include "common/engine/cpu_target.h"

#include <utility>

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<EngineTarget>> LoadCpuTarget(
    const ModelFile& model, const std::string& path, const EngineOptions& options,
    const Kernels& kernels, ThreadPool& pool, const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<CpuEngine> engine,
                            LoadCpuEngine(model, path, options, kernels, pool, progress));
  return EngineTarget::Create(std::move(engine));
}

}  // namespace outrider
