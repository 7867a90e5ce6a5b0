// The honest stand-in where libtorch was not found at build time.
#include "common/base/status.h"
#include "common/torch/torch_target.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Target>> LoadTorchTarget(const ModelFile&, const std::string&,
                                                        const TorchTargetOptions&,
                                                        const LoadProgress&) {
  return FailedPrecondition(
      "this build has no libtorch: install it (deploy/install-packages trainers) and build again");
}

}  // namespace outrider
