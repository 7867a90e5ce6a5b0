#include "common/torch/torch_module.h"

void OutriderLoadTorchTarget(const outrider::ModelFile& model, const std::string& path,
                             const outrider::TorchTargetOptions& options,
                             const outrider::LoadProgress& progress,
                             absl::StatusOr<std::unique_ptr<outrider::Target>>& target) {
  target = outrider::LoadTorchTarget(model, path, options, progress);
}
