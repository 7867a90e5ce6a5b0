#include "common/model/load_plan.h"

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {

LoadPlan::LoadPlan(const ModelFile& model, const ModelSpec& spec, OuterWeights& outer,
                   std::vector<LayerWeights>& layers)
    : model_(model), spec_(spec) {
  const ModelTensor* const embeddings = model.Find("token_embd.weight");
  OUTRIDER_CHECK(embeddings != nullptr, "a model file with tensors has all its layout asks for");
  if (spec.tied_embeddings) {
    PlanMatrix(*embeddings, 0, embeddings->row_count(), WeightLayout::kPanels, outer.embeddings);
  } else {
    PlanTable("token_embd.weight", outer.embeddings);
  }
  PlanTable("position_embd.weight", outer.positions);
  PlanVector("rope_freqs.weight", outer.rope_freqs);
  for (uint32_t n = 0; n < spec.layer_count(); ++n) PlanLayer(n, spec.layers[n], layers[n]);
  Plan("output_norm", outer.output_norm);
  if (const ModelTensor* const head = model.Find("output.weight"); head != nullptr) {
    PlanMatrix(*head, 0, head->row_count(), WeightLayout::kPanels, outer.head);
  }
}

absl::Status LoadPlan::Check(const std::string& path) const {
  const auto check = [&](const ModelTensor& tensor) -> absl::Status {
    if (HasPanels(tensor.type) || CanDequantize(tensor.type)) return absl::OkStatus();
    return Unimplemented(path, ": tensor ", tensor.name, " is ", Name(tensor.type),
                         ", which is not supported for running; take a file of another type");
  };
  for (const MatrixPart& part : matrices_) OUTRIDER_RETURN_IF_ERROR(check(*part.tensor));
  for (const VectorPart& part : vectors_) OUTRIDER_RETURN_IF_ERROR(check(*part.tensor));
  return absl::OkStatus();
}

void LoadPlan::PlanLayer(uint32_t layer, const AttentionShape& shape, LayerWeights& weights) {
  const std::string block = Concat("blk.", layer, ".");
  Plan(block + "attn_norm", weights.attention_norm);
  PlanQueryKeyValue(block, shape, weights);
  PlanVector(block + "attn_q_norm.weight", weights.query_norm);
  PlanVector(block + "attn_k_norm.weight", weights.key_norm);
  Plan(block + "attn_output", weights.attention_output);
  Plan(block + "ffn_norm", weights.feed_forward_norm);
  Plan(block + "ffn_gate", weights.gate);
  Plan(block + "ffn_up", weights.up);
  Plan(block + "ffn_down", weights.down);
}

void LoadPlan::PlanQueryKeyValue(std::string_view block, const AttentionShape& shape,
                                 LayerWeights& weights) {
  const std::string fused = Concat(block, "attn_qkv");
  if (model_.Find(fused + ".weight") == nullptr) {
    Plan(Concat(block, "attn_q"), weights.query);
    Plan(Concat(block, "attn_k"), weights.key);
    Plan(Concat(block, "attn_v"), weights.value);
    return;
  }
  const uint64_t queries = uint64_t{shape.head_count} * spec_.key_length;
  const uint64_t keys = uint64_t{shape.kv_head_count} * spec_.key_length;
  const uint64_t values = uint64_t{shape.kv_head_count} * spec_.value_length;
  PlanRows(fused, 0, queries, weights.query);
  PlanRows(fused, queries, keys, weights.key);
  PlanRows(fused, queries + keys, values, weights.value);
}

void LoadPlan::Plan(std::string_view name, Norm& norm) {
  PlanVector(Concat(name, ".weight"), norm.weight);
  PlanVector(Concat(name, ".bias"), norm.bias);
}

void LoadPlan::Plan(std::string_view name, Linear& linear) {
  if (const ModelTensor* const tensor = model_.Find(Concat(name, ".weight")); tensor != nullptr) {
    PlanRows(name, 0, tensor->row_count(), linear);
  }
}

void LoadPlan::PlanRows(std::string_view name, uint64_t first, uint64_t count, Linear& linear) {
  PlanMatrix(*model_.Find(Concat(name, ".weight")), first, count, WeightLayout::kPanels,
             linear.matrix);
  PlanVector(Concat(name, ".bias"), first, count, linear.bias);
}

void LoadPlan::PlanTable(std::string_view name, WeightMatrix& view) {
  if (const ModelTensor* const tensor = model_.Find(name); tensor != nullptr) {
    PlanMatrix(*tensor, 0, tensor->row_count(), WeightLayout::kRows, view);
  }
}

void LoadPlan::PlanMatrix(const ModelTensor& tensor, uint64_t first, uint64_t count,
                          WeightLayout layout, WeightMatrix& view) {
  view.type = tensor.type;
  view.layout = HasPanels(tensor.type) ? layout : WeightLayout::kRows;
  view.outputs = static_cast<uint32_t>(count);
  view.inputs = static_cast<uint32_t>(tensor.dims[0]);
  const uint64_t bytes = view.layout == WeightLayout::kPanels
                             ? PackedBytes(view.type, view.outputs, view.inputs)
                             : count * RowBytes(view.type, view.inputs);
  matrices_.push_back({&tensor, first, &view, Place(bytes), bytes});
}

void LoadPlan::PlanVector(std::string_view name, uint64_t first, uint64_t count,
                          std::span<const float>& view) {
  if (const ModelTensor* const tensor = model_.Find(name); tensor != nullptr) {
    vectors_.push_back({tensor, first, count, &view, Place(count * sizeof(float))});
  }
}

void LoadPlan::PlanVector(std::string_view name, std::span<const float>& view) {
  if (const ModelTensor* const tensor = model_.Find(name); tensor != nullptr) {
    PlanVector(name, 0, tensor->dims[0], view);
  }
}

size_t LoadPlan::Place(size_t bytes) {
  const size_t at = memory_bytes_;
  memory_bytes_ += (bytes + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
  return at;
}

}  // namespace outrider
