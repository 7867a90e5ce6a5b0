#include "common/model/model_spec.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
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
    case Activation::kClampedSilu:
      return "a clamped SiLU";
  }
  return "";
}

std::optional<float> PositiveOrNone(float number) {
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<GateKind> GateOf(const Hyperparameters& model) {
  if (model.activation == Activation::kSilu && model.gated) return GateKind::kSiluGated;
  if (model.activation == Activation::kClampedSilu && model.gated) {
    return GateKind::kClampedSiluGated;
  }
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
  FeedForwardSpec shape = {.gate = gate,
                           .length = experts.feed_forward_length,
                           .router = RouterSpec{.expert_count = experts.count,
                                                .used_count = experts.used_count,
                                                .renormalize = experts.renormalize}};
  if (const uint32_t length = experts.shared_feed_forward_length; length > 0) {
    shape.shared_length = length;
  }
  return shape;
}

Rope RopeOf(const Hyperparameters& model, uint32_t block) {
  if (!model.has_rope(block)) return {};
  return model.has_window(block) && model.window_rope ? *model.window_rope : model.rope;
}

AttentionSpec AttentionOf(const Hyperparameters& model, uint32_t block) {
  return {.head_count = model.head_count[block],
          .kv_head_count = model.head_count_kv[block],
          .key_length = model.key_length,
          .value_length = model.value_length,
          // Square root and division are exactly rounded everywhere.
          .scale = model.attention_scale.value_or(
              static_cast<float>(1.0 / std::sqrt(static_cast<double>(model.key_length)))),
          .window = model.has_window(block) ? model.sliding_window : std::nullopt,
          .rope = RopeOf(model, block),
          .cells_of = std::nullopt,
          .soft_cap = PositiveOrNone(model.attention_soft_cap),
          .query_growth = model.query_growth,
          .head_norms = model.norms_each_head ? HeadNorms::kLayerEach : HeadNorms::kRms};
}

LayerSpec LayerOf(const Hyperparameters& model, uint32_t block) {
  return {.mixer = AttentionOf(model, block),
          .cross_attention = std::nullopt,
          .feed_forward = FeedForwardOf(model, block),
          .is_parallel = model.parallel_blocks};
}

// Of a path that may end in a slash, as shells complete directories.
std::string FileNameOf(const std::string& path) {
  std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  return file.filename().string();
}

// Rules that came with version 3 of the contract.
bool TakesScalesOrCaps(const ModelSpec& spec) {
  return spec.embedding_scale != 1.0f || spec.residual_scale != 1.0f || spec.logit_scale != 1.0f ||
         spec.logit_soft_cap || std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
           return layer.attention()->soft_cap || layer.feed_forward.shared_length ||
                  layer.is_parallel || layer.feed_forward.gate == GateKind::kClampedSiluGated ||
                  layer.attention()->rope.scaling == RopeScaling::kLongRope;
         });
}

// The rule that came with version 4.
bool HasGrowingQueries(const ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
    return layer.attention()->query_growth.has_value();
  });
}

// The rule that came with version 5.
bool NormsEachHead(const ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
    return layer.attention()->head_norms == HeadNorms::kLayerEach;
  });
}

}  // namespace

bool ModelSpec::hears_encoder() const {
  return std::ranges::any_of(
      layers, [](const LayerSpec& layer) { return layer.cross_attention.has_value(); });
}

void ModelSpec::LimitContext(uint32_t length) {
  for (LayerSpec& layer : layers) {
    AttentionSpec* const attention = layer.attention();
    if (attention == nullptr || attention->rope.scaling != RopeScaling::kLongRope) continue;
    attention->rope.is_long = length > attention->rope.original_context_length;
  }
}

absl::StatusOr<ModelSpec> ModelSpec::From(const ModelFile& model, const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, From(model.hyperparameters(), path));
  if (model.tensors().empty()) {
    return InvalidArgument(path, ": holds a vocabulary and no weights; it cannot be run");
  }
  spec.file = FileNameOf(path);
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
  spec.embedding_scale = numbers.embedding_scale;
  spec.residual_scale = numbers.residual_scale;
  spec.logit_scale = numbers.output_scale / numbers.output_divisor;
  spec.logit_soft_cap = PositiveOrNone(numbers.output_soft_cap);
  for (uint32_t n = 0; n < numbers.block_count; ++n) spec.layers.push_back(LayerOf(numbers, n));
  if (TakesScalesOrCaps(spec)) spec.numerics_version = kScalesNumericsVersion;
  if (HasGrowingQueries(spec)) spec.numerics_version = kQueryGrowthNumericsVersion;
  if (NormsEachHead(spec)) spec.numerics_version = kHeadNormsNumericsVersion;
  spec.LimitContext(spec.context_length);
  return spec;
}

}  // namespace outrider
