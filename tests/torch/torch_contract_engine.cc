#include "common/base/status.h"
#include "common/kernels/isa.h"
#include "common/torch/torch_engine.h"
#include "tests/engine/contract_engine.h"
#include "tests/model/hearing.h"
#include "tests/torch/torch_model.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Engine>> MakeContractEngine(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  return LoadTorchEngine(*model, path, "cpu", options, KernelsFor(BestIsa()), pool, nullptr);
}

absl::StatusOr<std::unique_ptr<Engine>> MakeHearingEngine(const std::string& path,
                                                          const EngineOptions& options,
                                                          ThreadPool& pool) {
  const TorchTransformer model = LoadTorch(path);
  ModelSpec spec = model.spec();
  std::vector<NamedParameter> parameters(model.parameters().begin(), model.parameters().end());
  const HearingWeights weights = {};
  const auto add = [&](const std::string& name, std::span<const float> values,
                       std::vector<int64_t> shape) {
    at::Tensor tensor = at::empty(shape, at::kFloat);
    std::ranges::copy(values, tensor.data_ptr<float>());
    parameters.push_back({name, tensor});
  };
  const auto add_matrix = [&](const std::string& name, const RandomMatrix& matrix) {
    add(name, matrix.values, {matrix.linear.matrix.outputs, matrix.linear.matrix.inputs});
  };
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    spec.layers[n].cross_attention = kHearing;
    const std::string stem = Concat("blk.", n, ".cross_attn_");
    add(stem + "norm.weight", weights.norm, {kHearingWidth});
    add_matrix(stem + "q.weight", weights.query);
    add_matrix(stem + "k.weight", weights.key);
    add_matrix(stem + "v.weight", weights.value);
    add_matrix(stem + "o.weight", weights.output);
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      TorchTransformer hearing,
      TorchTransformer::Create(std::move(spec), {}, std::move(parameters), at::kCPU));
  return CreateTorchEngine(std::move(hearing), path, options, KernelsFor(BestIsa()), pool);
}

}  // namespace outrider
