#include "common/torch/torch_transformer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/models/content_parts.h"
#include "common/formats/models/tensor_layout.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/rope_table.h"
#include "common/model/weights/load_plan.h"
#include "common/torch/fused.h"
#include "common/torch/layer_windows.h"
#include "common/torch/torch_attention.h"
#include "common/torch/torch_status.h"

namespace outrider {
namespace {

constexpr char kRopeDivisors[] = "rope_freqs.weight";

// Read and decoded together.
constexpr uint64_t kBandBytes = 4 << 20;

std::vector<int64_t> Shape(std::span<const uint64_t> dims) {
  return {dims.rbegin(), dims.rend()};
}

// A file's tensors, one after another; tensors of single experts are stacked.
class Reader {
 public:
  Reader(const ModelFile& model, const std::string& path, const LoadProgress& progress)
      : model_(model),
        path_(path),
        progress_(progress),
        hasher_(model.hyperparameters(), model.tensors()) {
    for (const ModelTensor& tensor : model.tensors()) bytes_total_ += tensor.bytes;
  }

  // Undefined for one that the file does without.
  absl::StatusOr<at::Tensor> Read(const ExpectedTensor& expected) {
    if (const ModelTensor* const tensor = model_.Find(expected.name); tensor != nullptr) {
      return Read(*tensor);
    }
    constexpr std::string_view kStacked = "_exps.weight";
    if (!expected.name.ends_with(kStacked)) return at::Tensor();
    const std::string stem = expected.name.substr(0, expected.name.size() - kStacked.size());
    std::vector<at::Tensor> experts;
    for (uint64_t expert = 0; expert < expected.dims[2]; ++expert) {
      const ModelTensor* const tensor = model_.Find(Concat(stem, ".", expert, ".weight"));
      OUTRIDER_CHECK(tensor != nullptr, "a model file has all its layout asks for");
      OUTRIDER_ASSIGN_OR_RETURN(at::Tensor values, Read(*tensor));
      experts.push_back(std::move(values));
    }
    return at::stack(experts);
  }

  uint64_t content_hash() const { return hasher_.value(); }

 private:
  absl::StatusOr<at::Tensor> Read(const ModelTensor& tensor) {
    OUTRIDER_RETURN_IF_ERROR(CheckRunnable(tensor, path_));
    at::Tensor values = at::empty(Shape(tensor.dims), at::kFloat);
    const uint64_t length = tensor.dims[0];
    const uint64_t row_bytes = RowBytes(tensor.type, length);
    const uint64_t band_rows = std::max<uint64_t>(1, kBandBytes / row_bytes);
    for (uint64_t first = 0; first < tensor.row_count(); first += band_rows) {
      const uint64_t count = std::min(band_rows, tensor.row_count() - first);
      band_.resize(count * row_bytes);
      OUTRIDER_RETURN_IF_ERROR(model_.ReadRows(tensor, first, count, band_));
      OUTRIDER_RETURN_IF_ERROR(hasher_.Add(tensor, band_));
      OUTRIDER_RETURN_IF_ERROR(Dequantize(
          tensor.type, band_, {values.data_ptr<float>() + first * length, count * length}));
      bytes_done_ += band_.size();
      if (progress_) progress_(bytes_done_, bytes_total_, tensor.name);
    }
    return values;
  }

  const ModelFile& model_;
  const std::string& path_;
  const LoadProgress& progress_;
  std::vector<std::byte> band_;
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
  ContentHasher hasher_;
};

// The matrices whose products are added to the residual stream start smaller, so that it does not
// grow with the depth (GPT-2's rule).
float InitialDeviation(const std::string& name, uint32_t layer_count) {
  const bool ends_a_half =
      name.ends_with("attn_output.weight") || name.ends_with("ffn_down.weight");
  return ends_a_half ? 0.02f / std::sqrt(2.0f * static_cast<float>(layer_count)) : 0.02f;
}

at::Tensor InitialValue(const ExpectedTensor& tensor, uint32_t layer_count,
                        const at::Generator& random) {
  const std::vector<int64_t> shape = Shape(tensor.dims);
  if (tensor.name.ends_with(".bias")) return at::zeros(shape, at::kFloat);
  if (shape.size() == 1) return at::ones(shape, at::kFloat);  // norms
  return at::empty(shape, at::kFloat)
      .normal_(0.0, InitialDeviation(tensor.name, layer_count), random);
}

// What of a layer is computed by the core alone; empty: nothing.
std::string_view PartOfTheCoreAlone(const LayerSpec& layer) {
  if (layer.is_parallel) return "attention and feed-forward part side by side";
  if (layer.feed_forward.shared_length) return "an expert that all rows share";
  const AttentionSpec* const attention = layer.attention();
  if (attention == nullptr) return "";
  if (attention->soft_cap) return "a soft cap of scores";
  if (attention->query_growth) return "queries that grow with their position";
  if (attention->rope.scaling == RopeScaling::kLongRope) return "longrope";
  if (layer.feed_forward.gate == GateKind::kClampedSiluGated) return "a clamped gate";
  return "";
}

std::string_view PartOfTheCoreAlone(const ModelSpec& spec) {
  if (spec.embedding_scale != 1.0f || spec.residual_scale != 1.0f || spec.logit_scale != 1.0f) {
    return "scales of embeddings, residuals or logits";
  }
  if (spec.logit_soft_cap) return "a soft cap of logits";
  for (const LayerSpec& layer : spec.layers) {
    if (const std::string_view part = PartOfTheCoreAlone(layer); !part.empty()) return part;
  }
  return "";
}

// Where each row stands in its document: [B, T].
at::Tensor PositionsWithin(const at::Tensor& documents) {
  const at::Tensor at = at::arange(documents.size(1), documents.options()).expand_as(documents);
  const at::Tensor continues = documents.slice(1, 1).eq(documents.slice(1, 0, -1));
  at::Tensor starts = at.clone();
  starts.slice(1, 1).masked_fill_(continues, 0);
  return at - std::get<0>(starts.cummax(1));
}

// [B, T]: the first key each row sees, where its position counts from its document's first.
at::Tensor FirstKeys(const at::Tensor& tokens, const at::Tensor& positions,
                     std::optional<uint32_t> window) {
  const at::Tensor at = at::arange(tokens.size(1), tokens.options());
  const at::Tensor seen = window ? positions.clamp_max(int64_t{*window} - 1) : positions;
  return (at - seen).expand_as(tokens).contiguous();
}

// [B or 1, T, T]: the keys a row does not see.
at::Tensor HiddenKeys(const at::Tensor& tokens, const at::Tensor& documents,
                      std::optional<uint32_t> window) {
  const at::Tensor at = at::arange(tokens.size(1), tokens.options());
  const at::Tensor distance = at.unsqueeze(1) - at.unsqueeze(0);
  at::Tensor hidden = distance.lt(0).unsqueeze(0);
  if (window) hidden = hidden.logical_or(distance.ge(int64_t{*window}));
  if (documents.defined()) {
    hidden = hidden.logical_or(documents.unsqueeze(2).ne(documents.unsqueeze(1)));
  }
  return hidden;
}

}  // namespace

// Cosines and sines [..., 1, pairs], as the heads of a row share them.
struct TorchTransformer::Turns {
  RopeStyle style = RopeStyle::kNone;
  at::Tensor cos;
  at::Tensor sin;

  // x: [..., heads, length]; its first 2 * pairs dimensions turn.
  at::Tensor Apply(const at::Tensor& x) const {
    if (style == RopeStyle::kNone) return x;
    const int64_t pairs = cos.size(-1);
    if (style == RopeStyle::kInterleaved && x.dim() == 4 && x.size(-1) == 2 * pairs && CanFuse(x)) {
      return FusedTurnPairs(x, cos, sin);
    }
    const at::Tensor turning = x.narrow(-1, 0, 2 * pairs);
    at::Tensor turned;
    if (style == RopeStyle::kInterleaved) {
      const at::Tensor both = turning.unflatten(-1, {pairs, 2});
      const at::Tensor a = both.select(-1, 0), b = both.select(-1, 1);
      turned = at::stack({a * cos - b * sin, a * sin + b * cos}, -1).flatten(-2);
    } else {
      const at::Tensor a = turning.narrow(-1, 0, pairs), b = turning.narrow(-1, pairs, pairs);
      turned = at::cat({a * cos - b * sin, a * sin + b * cos}, -1);
    }
    const int64_t rest = x.size(-1) - 2 * pairs;
    return rest == 0 ? turned : at::cat({turned, x.narrow(-1, 2 * pairs, rest)}, -1);
  }
};

// --- making one ---

absl::StatusOr<TorchTransformer> TorchTransformer::Load(const ModelFile& model,
                                                        const std::string& path, at::Device device,
                                                        const LoadProgress& progress) {
  return CatchTorch(path, [&]() -> absl::StatusOr<TorchTransformer> {
    OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(model, path));
    Reader reader(model, path, progress);
    at::Tensor divisors = at::empty({0}, at::kFloat);
    std::vector<NamedParameter> parameters;
    for (const ExpectedTensor& expected : TensorLayout(model.hyperparameters())) {
      OUTRIDER_ASSIGN_OR_RETURN(const at::Tensor values, reader.Read(expected));
      if (!values.defined()) continue;
      if (expected.name == kRopeDivisors) {
        divisors = values;
      } else {
        parameters.push_back({expected.name, values.to(device)});
      }
    }
    OUTRIDER_ASSIGN_OR_RETURN(
        TorchTransformer transformer,
        Create(std::move(spec), {divisors.data_ptr<float>(), static_cast<size_t>(divisors.numel())},
               std::move(parameters), device));
    transformer.content_hash_ = reader.content_hash();
    return transformer;
  });
}

absl::StatusOr<TorchTransformer> TorchTransformer::Initialise(const Hyperparameters& model,
                                                              uint64_t seed, at::Device device) {
  return CatchTorch(model.name, [&]() -> absl::StatusOr<TorchTransformer> {
    OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(model, model.name));
    // One generator, on the CPU: the same numbers on every device.
    const at::Generator random = at::detail::createCPUGenerator(seed);
    std::vector<NamedParameter> parameters;
    for (const ExpectedTensor& expected : TensorLayout(model)) {
      if (!expected.required) continue;
      parameters.push_back(
          {expected.name, InitialValue(expected, model.block_count, random).to(device)});
    }
    return Create(std::move(spec), {}, std::move(parameters), device);
  });
}

absl::StatusOr<TorchTransformer> TorchTransformer::Create(ModelSpec spec,
                                                          std::span<const float> rope_divisors,
                                                          std::vector<NamedParameter> parameters,
                                                          at::Device device) {
  TorchTransformer transformer(std::move(spec), std::move(parameters), device);
  OUTRIDER_RETURN_IF_ERROR(transformer.CheckParts());
  OUTRIDER_RETURN_IF_ERROR(transformer.MakeFrequencies(rope_divisors));
  transformer.FindParameters();
  return transformer;
}

absl::Status TorchTransformer::CheckParts() const {
  std::string_view part = PartOfTheCoreAlone(spec_);
  if (Find("blk.0.post_ffw_norm.weight") != nullptr) part = "norms after the parts of a layer";
  if (part.empty()) return absl::OkStatus();
  return Unimplemented(spec_.name, ": ", part,
                       " cannot be computed on libtorch yet; the processor's own engine can "
                       "(--device cpu)");
}

absl::Status TorchTransformer::MakeFrequencies(std::span<const float> divisors) {
  for (const LayerSpec& layer : spec_.layers) {
    const Rope& rope = layer.attention()->rope;
    const auto same = std::ranges::find(ways_to_turn_, rope, &WayToTurn::rope);
    way_of_layer_.push_back(static_cast<size_t>(same - ways_to_turn_.begin()));
    if (same != ways_to_turn_.end()) continue;
    const absl::StatusOr<RopeTable> table = RopeTable::Create(rope, divisors);
    if (!table.ok()) return Annotate(table.status(), spec_.name);
    const std::span<const float> frequencies = table->frequencies();
    at::Tensor values = at::empty({static_cast<int64_t>(frequencies.size())}, at::kFloat);
    std::ranges::copy(frequencies, values.data_ptr<float>());
    ways_to_turn_.push_back({rope, values.to(device_)});
  }
  return absl::OkStatus();
}

void TorchTransformer::FindParameters() {
  embeddings_ = Find("token_embd.weight");
  positions_ = Find("position_embd.weight");
  for (uint32_t n = 0; n < spec_.layer_count(); ++n) {
    const std::string block = Concat("blk.", n, ".");
    layers_.push_back({.attention_norm = FindNorm(block + "attn_norm"),
                       .query_key_value = FindLinear(block + "attn_qkv"),
                       .query = FindLinear(block + "attn_q"),
                       .key = FindLinear(block + "attn_k"),
                       .value = FindLinear(block + "attn_v"),
                       .query_norm = Find(block + "attn_q_norm.weight"),
                       .key_norm = Find(block + "attn_k_norm.weight"),
                       .attention_output = FindLinear(block + "attn_output"),
                       .cross_attention_norm = FindNorm(block + "cross_attn_norm"),
                       .cross_query = FindLinear(block + "cross_attn_q"),
                       .cross_key = FindLinear(block + "cross_attn_k"),
                       .cross_value = FindLinear(block + "cross_attn_v"),
                       .cross_output = FindLinear(block + "cross_attn_o"),
                       .feed_forward_norm = FindNorm(block + "ffn_norm"),
                       .gate = FindLinear(block + "ffn_gate"),
                       .up = FindLinear(block + "ffn_up"),
                       .down = FindLinear(block + "ffn_down"),
                       .router = FindLinear(block + "ffn_gate_inp"),
                       .gates = Find(block + "ffn_gate_exps.weight"),
                       .ups = Find(block + "ffn_up_exps.weight"),
                       .downs = Find(block + "ffn_down_exps.weight")});
  }
  output_norm_ = FindNorm("output_norm");
  head_ = spec_.tied_embeddings ? embeddings_ : Find("output.weight");
}

TorchTransformer::Parameter TorchTransformer::Find(const std::string& name) const {
  const auto found = std::ranges::find(parameters_, name, &NamedParameter::name);
  return found == parameters_.end() ? nullptr : &found->value;
}

TorchTransformer::Norm TorchTransformer::FindNorm(const std::string& name) const {
  return {Find(name + ".weight"), Find(name + ".bias")};
}

TorchTransformer::Linear TorchTransformer::FindLinear(const std::string& name) const {
  return {Find(name + ".weight"), Find(name + ".bias")};
}

// --- a pass ---

TorchOutput TorchTransformer::Forward(const at::Tensor& tokens,
                                      const TorchForwardOptions& options) const {
  const at::Tensor positions = options.documents.defined()
                                   ? PositionsWithin(options.documents)
                                   : at::arange(tokens.size(1), tokens.options());
  const LayerWindows windows(spec_);
  std::vector<at::Tensor> hidden_keys, first_keys;  // by window
  for (const std::optional<uint32_t> window : windows.windows()) {
    hidden_keys.push_back(HiddenKeys(tokens, options.documents, window));
    first_keys.push_back(FirstKeys(tokens, positions, window));
  }
  TorchOutput output;
  const auto attend = [&](uint32_t layer, const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value) {
    const float scale = spec_.layers[layer].attention()->scale;
    const size_t window = windows.of(layer);
    if (CanFuse(query) && CanFuse(key) && CanFuse(value)) {
      return FusedAttend(query, key, value, scale, first_keys[window]);
    }
    return outrider::Attend(query, key, value, scale, hidden_keys[window]);
  };
  const auto observe = [&](uint32_t layer, const at::Tensor& hidden) {
    if (std::ranges::binary_search(options.hidden_layers, layer)) output.hidden.push_back(hidden);
  };
  output.logits = Head(Layers(Embed(tokens), positions, attend, nullptr, observe));
  return output;
}

at::Tensor TorchTransformer::Head(const at::Tensor& hidden) const {
  return at::linear(Normalize(output_norm_, hidden), *head_);
}

at::Tensor TorchTransformer::Embed(const at::Tensor& tokens) const {
  return at::embedding(*embeddings_, tokens);
}

at::Tensor TorchTransformer::Layers(const at::Tensor& embedded, const at::Tensor& positions,
                                    const Attend& attend, const Hear& hear,
                                    const Observe& observe) const {
  at::Tensor hidden = embedded;
  if (positions_ != nullptr) hidden = hidden + at::embedding(*positions_, positions);
  std::vector<Turns> turns;
  for (const WayToTurn& way : ways_to_turn_) turns.push_back(TurnsAt(way, positions));
  for (uint32_t n = 0; n < layers_.size(); ++n) {
    hidden = hidden + Attention(layers_[n], n, hidden, turns[way_of_layer_[n]], attend);
    if (spec_.layers[n].cross_attention) {
      hidden = hidden + CrossAttention(layers_[n], n, hidden, hear);
    }
    hidden = hidden + FeedForward(layers_[n], n, hidden);
    if (observe) observe(n, hidden);
  }
  return hidden;
}

TorchTransformer::Turns TorchTransformer::TurnsAt(const WayToTurn& way,
                                                  const at::Tensor& positions) const {
  if (way.rope.style == RopeStyle::kNone) return {};
  const at::Tensor angles =
      positions.to(at::kFloat).unsqueeze(-1).mul(way.frequencies).unsqueeze(-2);
  const float factor = way.rope.scaling == RopeScaling::kYarn ? way.rope.attention_factor : 1.0f;
  return {way.rope.style, angles.cos() * factor, angles.sin() * factor};
}

at::Tensor TorchTransformer::Normalize(const Norm& norm, const at::Tensor& x) const {
  if (spec_.norm == NormKind::kRms) return NormalizeRms(*norm.weight, x);
  return at::layer_norm(x, {x.size(-1)}, *norm.weight, *norm.bias, spec_.norm_epsilon);
}

at::Tensor TorchTransformer::NormalizeRms(const at::Tensor& weight, const at::Tensor& x) const {
  if (CanFuse(x)) return FusedNormalizeRms(x, weight, spec_.norm_epsilon);
  return x * x.square().mean(-1, true).add(spec_.norm_epsilon).rsqrt() * weight;
}

// x: [..., heads, length]. Each head by itself, or all together where the weight is as long.
at::Tensor TorchTransformer::NormalizeHeads(HeadNorms norms, const at::Tensor& weight,
                                            const at::Tensor& x) const {
  if (norms == HeadNorms::kLayerEach) {
    return at::layer_norm(x, {x.size(-1)}, {}, {}, spec_.norm_epsilon) * weight;
  }
  if (weight.size(0) == x.size(-1)) return NormalizeRms(weight, x);
  return NormalizeRms(weight, x.flatten(-2)).view_as(x);
}

at::Tensor TorchTransformer::Attention(const Layer& weights, uint32_t layer,
                                       const at::Tensor& hidden, const Turns& turns,
                                       const Attend& attend) const {
  const AttentionSpec& shape = *spec_.layers[layer].attention();
  const int64_t heads = shape.head_count, kv_heads = shape.kv_head_count;
  const at::Tensor normed = Normalize(weights.attention_norm, hidden);
  at::Tensor query, key, value;
  if (weights.query_key_value.weight != nullptr) {
    const at::Tensor all = Multiply(weights.query_key_value, normed);
    const int64_t queries = heads * shape.key_length, keys = kv_heads * shape.key_length;
    query = all.narrow(-1, 0, queries);
    key = all.narrow(-1, queries, keys);
    value = all.narrow(-1, queries + keys, kv_heads * shape.value_length);
  } else {
    query = Multiply(weights.query, normed);
    key = Multiply(weights.key, normed);
    value = Multiply(weights.value, normed);
  }
  query = query.unflatten(-1, {heads, shape.key_length});
  key = key.unflatten(-1, {kv_heads, shape.key_length});
  value = value.unflatten(-1, {kv_heads, shape.value_length});
  if (weights.query_norm != nullptr) {
    query = NormalizeHeads(shape.head_norms, *weights.query_norm, query);
  }
  if (weights.key_norm != nullptr) {
    key = NormalizeHeads(shape.head_norms, *weights.key_norm, key);
  }
  const at::Tensor attended = attend(layer, turns.Apply(query), turns.Apply(key), value);
  return Multiply(weights.attention_output, attended.flatten(-2));
}

at::Tensor TorchTransformer::CrossAttention(const Layer& weights, uint32_t layer,
                                            const at::Tensor& hidden, const Hear& hear) const {
  OUTRIDER_CHECK(hear != nullptr, "layers that hear an encoder are told what it says");
  const CrossAttentionSpec& shape = *spec_.layers[layer].cross_attention;
  const at::Tensor query =
      Multiply(weights.cross_query, Normalize(weights.cross_attention_norm, hidden));
  const at::Tensor heard =
      hear(layer, query.unflatten(-1, {int64_t{shape.head_count}, shape.key_length}));
  return Multiply(weights.cross_output, heard.flatten(-2));
}

TorchTransformer::Heard TorchTransformer::HeardBy(uint32_t layer, const at::Tensor& states) const {
  const CrossAttentionSpec& shape = *spec_.layers[layer].cross_attention;
  const int64_t kv_heads = shape.kv_head_count;
  return {
      Multiply(layers_[layer].cross_key, states).unflatten(-1, {kv_heads, shape.key_length}),
      Multiply(layers_[layer].cross_value, states).unflatten(-1, {kv_heads, shape.value_length})};
}

at::Tensor TorchTransformer::FeedForward(const Layer& weights, uint32_t layer,
                                         const at::Tensor& hidden) const {
  const at::Tensor normed = Normalize(weights.feed_forward_norm, hidden);
  if (spec_.layers[layer].feed_forward.router) return AskExperts(weights, layer, normed);
  const at::Tensor up = Multiply(weights.up, normed);
  switch (spec_.layers[layer].feed_forward.gate) {
    case GateKind::kSiluGated: {
      const at::Tensor gate = Multiply(weights.gate, normed);
      return Multiply(weights.down, CanFuse(gate) ? FusedSiluGate(gate, up) : at::silu(gate) * up);
    }
    case GateKind::kGeluTanhGated:
      return Multiply(weights.down, at::gelu(Multiply(weights.gate, normed), "tanh") * up);
    case GateKind::kGeluTanh:
      return Multiply(weights.down, at::gelu(up, "tanh"));
    case GateKind::kClampedSiluGated:
      break;  // refused when the model was made
  }
  OUTRIDER_CHECK(false, "every kind of gate is above");
}

// Every expert takes the rows that chose it, all at once.
at::Tensor TorchTransformer::AskExperts(const Layer& weights, uint32_t layer,
                                        const at::Tensor& normed) const {
  const RouterSpec& router = *spec_.layers[layer].feed_forward.router;
  const at::Tensor rows = normed.flatten(0, -2);
  const at::Tensor likely = Multiply(weights.router, rows).to(rows.scalar_type()).softmax(-1);
  at::Tensor shares, chosen;  // [rows, used]
  std::tie(shares, chosen) = likely.topk(router.used_count, -1);
  if (router.renormalize) shares = shares / shares.sum(-1, true);
  at::Tensor sum = at::zeros_like(rows);
  for (int64_t expert = 0; expert < int64_t{router.expert_count}; ++expert) {
    const at::Tensor asking = chosen.eq(expert).nonzero();  // [n, 2]: row, place
    if (asking.size(0) == 0) continue;
    const at::Tensor row = asking.select(1, 0);
    const at::Tensor x = rows.index_select(0, row);
    const at::Tensor inner = at::silu(at::linear(x, weights.gates->select(0, expert))) *
                             at::linear(x, weights.ups->select(0, expert));
    const at::Tensor share = shares.index({row, asking.select(1, 1)}).unsqueeze(-1);
    sum = sum.index_add(0, row,
                        at::linear(inner, weights.downs->select(0, expert)).to(sum.dtype()) *
                            share.to(sum.dtype()));
  }
  return sum.view_as(normed);
}

at::Tensor TorchTransformer::Multiply(const Linear& linear, const at::Tensor& x) {
  return at::linear(x, *linear.weight,
                    linear.bias == nullptr ? c10::optional<at::Tensor>() : *linear.bias);
}

}  // namespace outrider
