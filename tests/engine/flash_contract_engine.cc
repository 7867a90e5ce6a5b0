// The contract's engine and target with their weights on flash, the head and all: of two layers one
// is pinned.
#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/engine/engine_target.h"
#include "common/engine/flash_engine.h"
#include "common/kernels/isa.h"
#include "tests/engine/contract_engine.h"
#include "tests/engine/contract_target.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Engine>> MakeContractEngine(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(
      FlashEngine flash,
      LoadFlashEngine(std::move(model), path, options,
                      {.slot_count = 2, .pinned_layer_count = 1, .pins_head = false},
                      KernelsFor(BestIsa()), pool, nullptr));
  return std::move(flash.engine);
}

absl::StatusOr<std::unique_ptr<Target>> MakeContractTarget(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                            MakeContractEngine(path, options, pool));
  return EngineTarget::Create(std::move(engine));
}

}  // namespace outrider
