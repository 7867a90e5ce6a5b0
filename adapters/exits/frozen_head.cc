#include "adapters/exits/frozen_head.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>

#include <vector>

#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/torch/torch_status.h"

namespace outrider {
namespace {

absl::StatusOr<at::Tensor> Read(const ModelFile& model, const std::string& path,
                                const ModelTensor& tensor) {
  if (!CanDequantize(tensor.type)) {
    return Unimplemented(path, ": tensor ", tensor.name, " is ", Name(tensor.type),
                         ", which is not supported; take a file of another type");
  }
  std::vector<std::byte> bytes(tensor.bytes);
  OUTRIDER_RETURN_IF_ERROR(model.ReadRows(tensor, 0, tensor.row_count(), bytes));
  at::Tensor values = at::empty(std::vector<int64_t>(tensor.dims.rbegin(), tensor.dims.rend()));
  OUTRIDER_RETURN_IF_ERROR(Dequantize(
      tensor.type, bytes, {values.data_ptr<float>(), static_cast<size_t>(values.numel())}));
  return values;
}

}  // namespace

absl::StatusOr<FrozenHead> FrozenHead::Load(const ModelFile& model, const std::string& path,
                                            const at::Device& device) {
  return CatchTorch(path, [&]() -> absl::StatusOr<FrozenHead> {
    OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(model, path));
    FrozenHead head;
    head.norm_kind_ = spec.norm;
    head.norm_epsilon_ = spec.norm_epsilon;
    const auto read = [&](std::string_view name, at::Tensor& into) -> absl::Status {
      const ModelTensor* const tensor = model.Find(name);
      if (tensor == nullptr) return absl::OkStatus();  // the model has none
      OUTRIDER_ASSIGN_OR_RETURN(const at::Tensor values, Read(model, path, *tensor));
      into = values.to(device);
      return absl::OkStatus();
    };
    OUTRIDER_RETURN_IF_ERROR(read("output_norm.weight", head.norm_weight_));
    OUTRIDER_RETURN_IF_ERROR(read("output_norm.bias", head.norm_bias_));
    OUTRIDER_RETURN_IF_ERROR(
        read(spec.tied_embeddings ? "token_embd.weight" : "output.weight", head.matrix_));
    return head;
  });
}

at::Tensor FrozenHead::Apply(const at::Tensor& hidden) const {
  if (norm_kind_ == NormKind::kRms) {
    const at::Tensor size = hidden.square().mean(-1, true).add(norm_epsilon_).sqrt();
    return at::linear(hidden / size * norm_weight_, matrix_);
  }
  return at::linear(
      at::layer_norm(hidden, {hidden.size(-1)}, norm_weight_, norm_bias_, norm_epsilon_), matrix_);
}

}  // namespace outrider
