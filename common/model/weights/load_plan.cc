#include "common/model/weights/load_plan.h"

#include <algorithm>

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

// An offset where a view has a pointer; see LoadPlan::offsets.
template <typename T>
const T* AsPointer(size_t offset) {
  return reinterpret_cast<const T*>(offset);
}

template <typename T>
const T* In(const std::byte* slot, const T* offset) {
  return reinterpret_cast<const T*>(slot + reinterpret_cast<size_t>(offset));
}

void Move(WeightMatrix& view, const std::byte* slot) {
  if (view.outputs > 0) view.data = In(slot, view.data);
}

void Move(std::span<const float>& view, const std::byte* slot) {
  if (!view.empty()) view = {In(slot, view.data()), view.size()};
}

void Move(Norm& view, const std::byte* slot) {
  Move(view.weight, slot);
  Move(view.bias, slot);
}

void Move(Linear& view, const std::byte* slot) {
  Move(view.matrix, slot);
  Move(view.bias, slot);
}

void Move(EntryWeights& view, const std::byte* slot) {
  Move(view.embeddings, slot);
  Move(view.positions, slot);
  Move(view.rope_freqs, slot);
  Move(view.unused_rope_freqs, slot);
}

void Move(HeadWeights& view, const std::byte* slot) {
  Move(view.norm, slot);
  Move(view.matrix, slot);
}

void Move(FeedForwardWeights& view, const std::byte* slot) {
  for (Linear* const linear : {&view.gate, &view.up, &view.down}) Move(*linear, slot);
}

void Move(SharedExpertWeights& view, const std::byte* slot) {
  Move(view.feed_forward, slot);
  Move(view.gate, slot);
}

void Move(PartNorms& view, const std::byte* slot) {
  for (Norm* const norm : {&view.before, &view.after, &view.sum}) Move(*norm, slot);
}

void Move(AttentionWeights& view, const std::byte* slot) {
  for (Linear* const linear : {&view.query, &view.key, &view.value, &view.output}) {
    Move(*linear, slot);
  }
  Move(view.query_norm, slot);
  Move(view.key_norm, slot);
  Move(view.sinks, slot);
}

void Move(CrossAttentionWeights& view, const std::byte* slot) {
  for (Linear* const linear : {&view.query, &view.key, &view.value, &view.output}) {
    Move(*linear, slot);
  }
}

void Move(LayerWeights& view, const std::byte* slot) {
  for (PartNorms* const norms :
       {&view.mixer_norms, &view.cross_attention_norms, &view.feed_forward_norms}) {
    Move(*norms, slot);
  }
  Move(view.attention, slot);
  Move(view.cross_attention, slot);
  Move(view.feed_forward, slot);
  Move(view.router, slot);
  Move(view.shared, slot);
}

// Puts the tensors of one key one after another.
template <typename Weights>
class Planning {
 public:
  Planning(const ModelFile& model, LoadPlan<Weights>& plan) : model_(model), plan_(plan) {}

  void Add(std::string_view name, Norm& norm) {
    AddVector(Concat(name, ".weight"), norm.weight);
    AddVector(Concat(name, ".bias"), norm.bias);
  }

  void Add(std::string_view name, Linear& linear) {
    if (const ModelTensor* const tensor = Find(name, ".weight"); tensor != nullptr) {
      AddRows(name, 0, tensor->row_count(), linear);
    }
  }

  void AddRows(std::string_view name, uint64_t first, uint64_t count, Linear& linear) {
    AddMatrix(*Find(name, ".weight"), first, count, WeightLayout::kPanels, linear.matrix);
    AddVector(Concat(name, ".bias"), first, count, linear.bias);
  }

  // Looked up by the row.
  void AddTable(std::string_view name, WeightMatrix& view) {
    if (const ModelTensor* const tensor = model_.Find(name); tensor != nullptr) {
      AddMatrix(*tensor, 0, tensor->row_count(), WeightLayout::kRows, view);
    }
  }

  void AddMatrix(const ModelTensor& tensor, uint64_t first, uint64_t count, WeightLayout layout,
                 WeightMatrix& view) {
    view.type = tensor.type;
    view.layout = HasPanels(tensor.type) ? layout : WeightLayout::kRows;
    view.outputs = static_cast<uint32_t>(count);
    view.inputs = static_cast<uint32_t>(tensor.dims[0]);
    const uint64_t bytes = view.layout == WeightLayout::kPanels
                               ? PackedBytes(view.type, view.outputs, view.inputs)
                               : count * RowBytes(view.type, view.inputs);
    const size_t at = Place(bytes, kSlotAlignment);
    plan_.matrices.push_back({&tensor, first, view, at, bytes});
    view.data = AsPointer<std::byte>(at);
  }

  void AddVector(std::string_view name, std::span<const float>& view) {
    if (const ModelTensor* const tensor = model_.Find(name); tensor != nullptr) {
      AddVector(name, 0, tensor->dims[0], view);
    }
  }

  // Norms of heads, of which each may have a row of its own.
  void AddHeadNorms(std::string_view name, std::span<const float>& view) {
    const ModelTensor* const tensor = model_.Find(name);
    if (tensor == nullptr) return;
    const uint64_t length = tensor->dims[0];
    const uint64_t count = tensor->row_count() * length;
    const size_t at = Place(count * sizeof(float));
    for (uint64_t first = 0; first < count; first += length) {
      plan_.vectors.push_back({tensor, first, length, at + first * sizeof(float)});
    }
    view = {AsPointer<float>(at), count};
  }

  void AddVector(std::string_view name, uint64_t first, uint64_t count,
                 std::span<const float>& view) {
    if (const ModelTensor* const tensor = model_.Find(name); tensor != nullptr) {
      const size_t at = Place(count * sizeof(float));
      plan_.vectors.push_back({tensor, first, count, at});
      view = {AsPointer<float>(at), count};
    }
  }

  const ModelTensor* Find(std::string_view name, std::string_view ending) const {
    return model_.Find(Concat(name, ending));
  }

 private:
  size_t Place(size_t bytes, size_t alignment = kVectorAlignment) {
    const size_t at = RoundUp(plan_.slot_bytes, alignment);
    plan_.slot_bytes = at + RoundUp(bytes, alignment);
    return at;
  }

  const ModelFile& model_;
  LoadPlan<Weights>& plan_;
};

// GPT-2 and Phi 3 have the three in one.
void AddQueryKeyValue(const std::string& block, const AttentionSpec& shape,
                      Planning<LayerWeights>& planning, AttentionWeights& weights) {
  const std::string fused = block + "attn_qkv";
  if (planning.Find(fused, ".weight") == nullptr) {
    planning.Add(block + "attn_q", weights.query);
    planning.Add(block + "attn_k", weights.key);
    planning.Add(block + "attn_v", weights.value);
    return;
  }
  const uint64_t queries = uint64_t{shape.head_count} * shape.key_length;
  const uint64_t keys = uint64_t{shape.kv_head_count} * shape.key_length;
  const uint64_t values = uint64_t{shape.kv_head_count} * shape.value_length;
  planning.AddRows(fused, 0, queries, weights.query);
  planning.AddRows(fused, queries, keys, weights.key);
  planning.AddRows(fused, queries + keys, values, weights.value);
}

// Phi 3 has the gate's rows and then those it gates in one.
void AddGateAndUp(const std::string& block, const FeedForwardSpec& shape,
                  Planning<LayerWeights>& planning, FeedForwardWeights& weights) {
  const std::string up = block + "ffn_up";
  const ModelTensor* const tensor = planning.Find(up, ".weight");
  if (tensor == nullptr || tensor->row_count() != 2 * uint64_t{shape.length}) {
    planning.Add(block + "ffn_gate", weights.gate);
    planning.Add(up, weights.up);
    return;
  }
  planning.AddRows(up, 0, shape.length, weights.gate);
  planning.AddRows(up, shape.length, shape.length, weights.up);
}

bool TurnsByLongFactors(const ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
    return layer.attention() != nullptr && layer.attention()->rope.is_long;
  });
}

void AddAttention(const std::string& block, const AttentionSpec& shape,
                  Planning<LayerWeights>& planning, AttentionWeights& weights) {
  AddQueryKeyValue(block, shape, planning, weights);
  planning.AddHeadNorms(block + "attn_q_norm.weight", weights.query_norm);
  planning.AddHeadNorms(block + "attn_k_norm.weight", weights.key_norm);
  planning.AddVector(block + "attn_sinks.weight", weights.sinks);
  planning.Add(block + "attn_output", weights.output);
}

}  // namespace

template <typename Weights>
Weights LoadPlan<Weights>::In(const std::byte* slot) const {
  Weights weights = offsets;
  Move(weights, slot);
  return weights;
}

template struct LoadPlan<EntryWeights>;
template struct LoadPlan<HeadWeights>;
template struct LoadPlan<LayerWeights>;
template struct LoadPlan<FeedForwardWeights>;

LoadPlan<EntryWeights> LoadPlanner::Entry() const {
  LoadPlan<EntryWeights> plan;
  EntryWeights& entry = plan.offsets;
  Planning planning(model_, plan);
  if (!spec_.tied_embeddings) planning.AddTable("token_embd.weight", entry.embeddings);
  planning.AddTable("position_embd.weight", entry.positions);
  planning.AddVector("rope_freqs.weight", entry.rope_freqs);
  const bool is_long = TurnsByLongFactors(spec_);
  planning.AddVector("rope_factors_long.weight",
                     is_long ? entry.rope_freqs : entry.unused_rope_freqs);
  planning.AddVector("rope_factors_short.weight",
                     is_long ? entry.unused_rope_freqs : entry.rope_freqs);
  return plan;
}

LoadPlan<HeadWeights> LoadPlanner::Head() const {
  LoadPlan<HeadWeights> plan;
  HeadWeights& head = plan.offsets;
  Planning planning(model_, plan);
  planning.Add("output_norm", head.norm);
  const ModelTensor* const matrix =
      model_.Find(spec_.tied_embeddings ? "token_embd.weight" : "output.weight");
  OUTRIDER_CHECK(matrix != nullptr, "a model file with tensors has all its layout asks for");
  planning.AddMatrix(*matrix, 0, matrix->row_count(), WeightLayout::kPanels, head.matrix);
  return plan;
}

LoadPlan<LayerWeights> LoadPlanner::Layer(uint32_t layer) const {
  LoadPlan<LayerWeights> plan;
  LayerWeights& weights = plan.offsets;
  Planning planning(model_, plan);
  const std::string block = Concat("blk.", layer, ".");
  planning.Add(block + "attn_norm", weights.mixer_norms.before);
  // gpt-oss calls the norm before its feed-forward part so.
  const bool has_own_norms = planning.Find(block + "ffn_norm", ".weight") != nullptr ||
                             planning.Find(block + "post_ffw_norm", ".weight") != nullptr;
  planning.Add(block + "post_attention_norm",
               has_own_norms ? weights.mixer_norms.after : weights.feed_forward_norms.before);
  if (const AttentionSpec* const shape = spec_.layers[layer].attention(); shape != nullptr) {
    AddAttention(block, *shape, planning, weights.attention);
  }
  planning.Add(block + "ffn_norm", weights.feed_forward_norms.before);
  planning.Add(block + "post_ffw_norm", weights.feed_forward_norms.after);
  AddGateAndUp(block, spec_.layers[layer].feed_forward, planning, weights.feed_forward);
  planning.Add(block + "ffn_down", weights.feed_forward.down);
  planning.Add(block + "ffn_gate_inp", weights.router);
  planning.AddVector(block + "ffn_gate_inp_shexp.weight", weights.shared.gate);
  planning.Add(block + "ffn_gate_shexp", weights.shared.feed_forward.gate);
  planning.Add(block + "ffn_up_shexp", weights.shared.feed_forward.up);
  planning.Add(block + "ffn_down_shexp", weights.shared.feed_forward.down);
  return plan;
}

// Experts are stacked in one tensor, or have each their own.
LoadPlan<FeedForwardWeights> LoadPlanner::Expert(uint32_t layer, uint32_t expert) const {
  LoadPlan<FeedForwardWeights> plan;
  Planning planning(model_, plan);
  const auto add = [&](std::string_view name, Linear& linear) {
    const std::string stem = Concat("blk.", layer, ".", name);
    const ModelTensor* const stacked = planning.Find(stem, "_exps.weight");
    if (stacked == nullptr) return planning.Add(Concat(stem, ".", expert), linear);
    const uint64_t rows = stacked->dims[1];
    planning.AddMatrix(*stacked, expert * rows, rows, WeightLayout::kPanels, linear.matrix);
    planning.AddVector(stem + "_exps.bias", expert * rows, rows, linear.bias);
  };
  add("ffn_gate", plan.offsets.gate);
  add("ffn_up", plan.offsets.up);
  add("ffn_down", plan.offsets.down);
  return plan;
}

absl::Status CheckRunnable(const ModelTensor& tensor, const std::string& path) {
  if (HasPanels(tensor.type) || CanDequantize(tensor.type)) return absl::OkStatus();
  return Unimplemented(path, ": tensor ", tensor.name, " is ", Name(tensor.type),
                       ", which is not supported for running; take a file of another type, such as "
                       "Q4_K_M or IQ4_XS");
}

}  // namespace outrider
