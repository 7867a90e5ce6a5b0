#include "common/torch/torch_module.h"

void OutriderLoadTorchEngine(const outrider::ModelFile& model, const std::string& path,
                             const std::string& device, const outrider::EngineOptions& options,
                             const outrider::Kernels& kernels, outrider::ThreadPool& pool,
                             const outrider::LoadProgress& progress,
                             absl::StatusOr<std::unique_ptr<outrider::Engine>>& engine) {
  engine = outrider::LoadTorchEngine(model, path, device, options, kernels, pool, progress);
}
