#include <utility>

#include "common/base/status.h"
#include "common/engine/engine_target.h"
#include "common/kernels/isa.h"
#include "common/torch/torch_engine.h"
#include "tests/engine/contract_target.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Target>> MakeContractTarget(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Engine> engine,
      LoadTorchEngine(*model, path, "cpu", options, KernelsFor(BestIsa()), pool, nullptr));
  return EngineTarget::Create(std::move(engine));
}

}  // namespace outrider
