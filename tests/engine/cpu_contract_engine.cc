#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/kernels/isa.h"
#include "tests/engine/contract_engine.h"
#include "tests/engine/hearing_cpu_engine.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Engine>> MakeContractEngine(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  return LoadCpuEngine(*model, path, options, KernelsFor(BestIsa()), pool, nullptr);
}

absl::StatusOr<std::unique_ptr<Engine>> MakeHearingEngine(const std::string& path,
                                                          const EngineOptions& options,
                                                          ThreadPool& pool) {
  return MakeHearingCpuEngine(path, options, pool);
}

}  // namespace outrider
