#include "common/model/model_spec.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/base/status.h"
#include "common/kernels/attention.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

std::string_view Describe(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "SiLU";
    case Activation::kGeluTanh:
      return "GELU in its tanh form";
    case Activation::kGeluErf:
      return "GELU in its erf form";
    case Activation::kRelu:
      return "ReLU";
  }
  return "";
}

std::optional<GateKind> GateOf(const Hyperparameters& model) {
  if (model.activation == Activation::kSilu && model.gated) return GateKind::kSiluGated;
  if (model.activation == Activation::kGeluTanh) {
    return model.gated ? GateKind::kGeluTanhGated : GateKind::kGeluTanh;
  }
  return std::nullopt;
}

// What is missing for this model, as the subject of "... is not supported"; empty when nothing is.
std::string Unsupported(const Hyperparameters& model) {
  if (model.is_encoder_decoder()) {
    return Concat("a model of encoder and decoder (", Name(model.architecture), ")");
  }
  if (const uint32_t length = std::max(model.key_length, model.value_length);
      length > kHeadLengthMax) {
    return Concat("a model with heads of ", length, " (the most is ", kHeadLengthMax, ")");
  }
  if (model.rope.scaling == RopeScaling::kLongRope) return "rope scaling \"longrope\"";
  if (model.output_scale != 1.0f) return "a scale before the output matrix";
  if (!GateOf(model)) {
    return Concat("a feed-forward part with ", Describe(model.activation),
                  model.gated ? " and a gate" : " and no gate");
  }
  return "";
}

FeedForwardSpec FeedForwardOf(const Hyperparameters& model, uint32_t block) {
  const GateKind gate = *GateOf(model);
  if (!model.has_experts(block)) {
    return {.gate = gate, .length = model.feed_forward_length, .router = std::nullopt};
  }
  const Experts& experts = model.experts;
  return {.gate = gate,
          .length = experts.feed_forward_length,
          .router = RouterSpec{.expert_count = experts.count,
                               .used_count = experts.used_count,
                               .renormalize = experts.renormalize}};
}

AttentionSpec AttentionOf(const Hyperparameters& model, uint32_t block) {
  return {.head_count = model.head_count[block],
          .kv_head_count = model.head_count_kv[block],
          .key_length = model.key_length,
          .value_length = model.value_length,
          // Square root and division are exactly rounded everywhere.
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(model.key_length))),
          .window = model.sliding_window,
          .rope = model.rope,
          .cells_of = std::nullopt};
}

LayerSpec LayerOf(const Hyperparameters& model, uint32_t block) {
  return {.mixer = AttentionOf(model, block),
          .cross_attention = std::nullopt,
          .feed_forward = FeedForwardOf(model, block)};
}

}  // namespace

bool ModelSpec::hears_encoder() const {
  return std::ranges::any_of(
      layers, [](const LayerSpec& layer) { return layer.cross_attention.has_value(); });
}

absl::StatusOr<ModelSpec> ModelSpec::From(const ModelFile& model, const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, From(model.hyperparameters(), path));
  if (model.tensors().empty()) {
    return InvalidArgument(path, ": holds a vocabulary and no weights; it cannot be run");
  }
  for (const ModelTensor& tensor : model.tensors()) {
    spec.numerics_version = std::max(spec.numerics_version, NumericsVersionOf(tensor.type));
  }
  return spec;
}

absl::StatusOr<ModelSpec> ModelSpec::From(const Hyperparameters& numbers, const std::string& path) {
  if (const std::string missing = Unsupported(numbers); !missing.empty()) {
    return Unimplemented(path, ": running ", missing, " is not supported");
  }
  ModelSpec spec;
  spec.name = numbers.name;
  spec.context_length = numbers.context_length;
  spec.embedding_length = numbers.embedding_length;
  spec.vocabulary_size = numbers.vocabulary_size;
  spec.norm = numbers.norm;
  spec.norm_epsilon = numbers.norm_epsilon;
  spec.learned_positions = numbers.architecture == Architecture::kGpt2;
  spec.tied_embeddings = numbers.tied_embeddings;
  for (uint32_t n = 0; n < numbers.block_count; ++n) spec.layers.push_back(LayerOf(numbers, n));
  return spec;
}

}  // namespace outrider
