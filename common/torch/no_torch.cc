// The honest stand-in where libtorch was not found at build time.
#include "common/base/status.h"
#include "common/torch/torch_engine.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Engine>> LoadTorchEngine(const ModelFile&, const std::string&,
                                                        const std::string&, const EngineOptions&,
                                                        const Kernels&, ThreadPool&,
                                                        const LoadProgress&) {
  return FailedPrecondition(
      "this build has no libtorch: install it (deploy/install-packages trainers) and build again");
}

}  // namespace outrider
