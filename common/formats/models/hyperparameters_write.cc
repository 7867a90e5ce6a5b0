// The {arch}.* metadata of a GGUF file, written.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/hyperparameters_gguf_names.h"
#include "common/formats/models/hyperparameters_rules.h"

namespace outrider {
namespace {

// Keys of one architecture, on their way out.
class Output {
 public:
  Output(GgufWriter& writer, Architecture architecture)
      : writer_(writer), prefix_(Concat(Name(architecture), ".")) {}

  void Count(std::string_view suffix, uint32_t value) {
    writer_.AddUint32(Concat(prefix_, suffix), value);
  }
  void Number(std::string_view suffix, float value) {
    writer_.AddFloat32(Concat(prefix_, suffix), value);
  }
  void Flag(std::string_view suffix, bool value) {
    writer_.AddBool(Concat(prefix_, suffix), value);
  }
  void Text(std::string_view suffix, std::string_view value) {
    writer_.AddString(Concat(prefix_, suffix), value);
  }
  void Flags(std::string_view suffix, const std::vector<bool>& values) {
    writer_.AddBools(Concat(prefix_, suffix), values);
  }
  void Counts(std::string_view suffix, std::span<const uint32_t> values) {
    writer_.AddUint32s(Concat(prefix_, suffix), values);
  }
  // One number when all blocks agree.
  void PerBlock(std::string_view suffix, std::span<const uint32_t> values) {
    const bool equal = std::ranges::all_of(values, [&](uint32_t v) { return v == values[0]; });
    equal ? Count(suffix, values[0]) : Counts(suffix, values);
  }

 private:
  GgufWriter& writer_;
  std::string prefix_;
};

void AddRope(const Hyperparameters& model, Output& out) {
  const Rope& rope = model.rope;
  if (rope.style == RopeStyle::kNone) return;
  out.Count("rope.dimension_count", rope.dimension_count);
  out.Number("rope.freq_base", rope.base);
  // llama3 is the tensor rope_freqs.weight, and readers know no scaling of that name.
  if (rope.scaling == RopeScaling::kNone || rope.scaling == RopeScaling::kLlama3) {
    const bool counts_in_it = model.query_growth && rope.original_context_length > 0;
    if (counts_in_it) {
      out.Count("rope.scaling.original_context_length", rope.original_context_length);
    }
    return;
  }
  if (rope.scaling == RopeScaling::kLongRope) {  // its tensors, likewise
    out.Count("rope.scaling.original_context_length", rope.original_context_length);
    out.Number("rope.scaling.attn_factor", rope.attention_factor);
    return;
  }
  const auto* const name =
      std::ranges::find(kScalingNames, rope.scaling, &std::pair<RopeScaling, const char*>::first);
  out.Text("rope.scaling.type", name->second);
  out.Number("rope.scaling.factor", rope.factor);
  if (rope.original_context_length > 0) {
    out.Count("rope.scaling.original_context_length", rope.original_context_length);
  }
  if (rope.scaling != RopeScaling::kYarn) return;
  if (model.architecture == Architecture::kMistral3 && rope.attention_factor == 1.0f) {
    out.Number("rope.scaling.yarn_log_multiplier", 1.0f);
  } else {
    const float customary = YarnAttentionFactor(rope.factor);
    out.Number("rope.scaling.attn_factor", rope.attention_factor / customary);
  }
  out.Number("rope.scaling.yarn_beta_fast", rope.yarn_beta_fast);
  out.Number("rope.scaling.yarn_beta_slow", rope.yarn_beta_slow);
}

void AddWindows(const Hyperparameters& model, Output& out) {
  if (model.sliding_window) out.Count("attention.sliding_window", *model.sliding_window);
  if (!model.sliding_window || WindowStep(model.architecture) == 0) return;
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const std::vector<bool>& blocks = model.window_blocks;
  uint32_t step = 0;  // all of them
  if (!blocks.empty()) {
    step = static_cast<uint32_t>(std::ranges::find(blocks, false) - blocks.begin()) + 1;
  }
  if (blocks == AllButEvery(step, model.block_count)) {
    out.Count(kPattern, step);
  } else {
    out.Flags(kPattern, blocks);
  }
  if (model.window_rope) out.Number("rope.freq_base_swa", model.window_rope->base);
}

void AddUnturnedBlocks(const Hyperparameters& model, Output& out) {
  if (model.unturned_blocks == CustomaryUnturnedBlocks(model)) return;
  std::vector<uint32_t> unturned;
  for (uint32_t block = 0; block < model.unturned_blocks.size(); ++block) {
    if (model.unturned_blocks[block]) unturned.push_back(block);
  }
  out.Counts("rope.unturned_layers", unturned);
}

void AddScales(const Hyperparameters& model, Output& out) {
  if (model.attention_scale != CustomaryAttentionScale(model)) {
    out.Number("attention.scale", model.attention_scale.value_or(InverseRoot(model.key_length)));
  }
  // 0 is written where readers take silence for another number.
  if (model.attention_soft_cap > 0 || CustomaryAttentionSoftCap(model.architecture) > 0) {
    out.Number("attn_logit_softcapping", model.attention_soft_cap);
  }
  if (model.output_soft_cap > 0 || CustomaryOutputSoftCap(model.architecture) > 0) {
    out.Number("final_logit_softcapping", model.output_soft_cap);
  }
  if (!IsGranite(model.architecture)) return;
  out.Number("embedding_scale", model.embedding_scale);
  out.Number("residual_scale", model.residual_scale);
  out.Number("logit_scale", model.output_divisor);
}

void AddExperts(const Hyperparameters& model, Output& out) {
  const Experts& experts = model.experts;
  if (experts.count == 0) return;
  out.Count("expert_count", experts.count);
  out.Count("expert_used_count", experts.used_count);
  out.Count("expert_feed_forward_length", experts.feed_forward_length);
  if (experts.shared_feed_forward_length > 0) {
    out.Count("expert_shared_feed_forward_length", experts.shared_feed_forward_length);
  }
  out.Flag("expert_weights_norm", experts.renormalize);
  std::vector<uint32_t> sparse;
  for (uint32_t block = 0; block < experts.blocks.size(); ++block) {
    if (experts.blocks[block]) sparse.push_back(block);
  }
  if (sparse.size() < experts.blocks.size()) out.Counts("expert_layers", sparse);
}

void AddEncoderDecoder(const Hyperparameters& model, Output& out) {
  if (!model.is_encoder_decoder()) return;
  out.Count("decoder_block_count", model.decoder_block_count);
  if (model.relative_buckets > 0) {
    out.Count("attention.relative_buckets_count", model.relative_buckets);
    if (model.relative_max_distance != kT5RelativeMaxDistance) {
      out.Count("attention.relative_max_distance", model.relative_max_distance);
    }
  }
  if (model.decoder_start_token) out.Count("decoder_start_token_id", *model.decoder_start_token);
  if (model.scale_embeddings) {
    out.Number("embedding_scale", std::sqrt(static_cast<float>(model.embedding_length)));
  }
}

}  // namespace

void AddHyperparameterMetadata(const Hyperparameters& model, GgufWriter& writer) {
  OUTRIDER_CHECK(model.total_block_count() > 0 &&
                     model.head_count.size() == model.total_block_count() &&
                     model.head_count_kv.size() == model.total_block_count(),
                 "hyperparameters come from a reader, which fills in every block");
  writer.AddString("general.architecture", Name(model.architecture));
  if (!model.name.empty()) writer.AddString("general.name", model.name);

  Output out(writer, model.architecture);
  out.Count("context_length", model.context_length);
  out.Count("embedding_length", model.embedding_length);
  out.Count("block_count", model.block_count);
  out.Count("feed_forward_length", model.feed_forward_length);
  out.Count("vocab_size", model.vocabulary_size);
  out.PerBlock("attention.head_count", model.head_count);
  // gpt2 files have none, and no need of one.
  if (model.head_count_kv != model.head_count || model.architecture != Architecture::kGpt2) {
    out.PerBlock("attention.head_count_kv", model.head_count_kv);
  }
  out.Count("attention.key_length", model.key_length);
  out.Count("attention.value_length", model.value_length);
  AddWindows(model, out);
  out.Number(NormEpsilonKey(model), model.norm_epsilon);
  if (model.architecture == Architecture::kT5) {
    out.Number("attention.layer_norm_epsilon", model.norm_epsilon);  // llama.cpp asks for both
  }
  AddRope(model, out);
  if (model.query_growth) out.Number("attention.temperature_scale", model.query_growth->scale);
  AddUnturnedBlocks(model, out);
  AddScales(model, out);
  AddExperts(model, out);
  AddEncoderDecoder(model, out);

  const Activation customary = model.architecture == Architecture::kT5 && model.gated
                                   ? Activation::kGeluTanh
                                   : ArchitectureDefaults(model.architecture).activation;
  if (model.activation != customary) {
    const auto* const name = std::ranges::find(kActivationNames, model.activation,
                                               &std::pair<Activation, const char*>::first);
    out.Text("hidden_activation", name->second);
  }
  // Always for Cohere 2, since llama.cpp asks for it, and for T5, whose tensors alone cannot tell a
  // tied model that does not scale from one that does.
  if (model.output_scale != 1.0f || model.architecture == Architecture::kT5 ||
      model.architecture == Architecture::kCohere2) {
    out.Number("logit_scale", model.output_scale);
  }
}

}  // namespace outrider
