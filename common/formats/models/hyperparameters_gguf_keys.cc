#include "common/formats/models/hyperparameters_gguf_keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <variant>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters_rules.h"

namespace outrider {
namespace {

// Read by hyperparameters_gguf.cc, of every architecture.
constexpr std::array<std::string_view, 34> kRead = {
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "vocab_size",
    "hidden_activation",
    "logit_scale",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.sliding_window",
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_weights_norm",
    "expert_weights_scale",
    "expert_gating_func",
    "expert_layers",
    // How the tensors came to be, which says nothing of what they are; and what a text is good for.
    "tensor_data_layout",
    "rope.scaling.finetuned",
    // Whether attention and feed-forward part stand beside one another: here the architecture or its
    // tensors say so, and old converters wrote "true" of Llama.
    "use_parallel_residual",
};

// Read of encoder-decoders, and of no other.
constexpr std::array<std::string_view, 5> kReadOfDecoders = {
    "decoder_block_count",
    "decoder_start_token_id",
    "embedding_scale",
    "attention.relative_buckets_count",
    "attention.relative_max_distance",
};

// Read of one architecture or of a few.
struct ReadOfSome {
  std::string_view suffix;
  bool (*is_read)(Architecture architecture);
};
constexpr std::array kReadOfSome = {
    ReadOfSome{"attention.scale", [](Architecture a) { return IsGranite(a) || IsGemma(a); }},
    ReadOfSome{"attention.sliding_window_pattern",
               [](Architecture a) { return WindowStep(a) != 0; }},
    ReadOfSome{"attention.temperature_scale",
               [](Architecture a) { return a == Architecture::kMistral3; }},
    ReadOfSome{"rope.scaling.yarn_log_multiplier",
               [](Architecture a) { return a == Architecture::kMistral3; }},
    ReadOfSome{"rope.freq_base_swa", [](Architecture a) { return WindowStep(a) != 0; }},
    ReadOfSome{"rope.unturned_layers", [](Architecture a) { return a == Architecture::kSmolLm3; }},
    ReadOfSome{"attn_logit_softcapping", IsGemma},
    ReadOfSome{"final_logit_softcapping", IsGemma},
    ReadOfSome{"embedding_scale", IsGranite},
    ReadOfSome{"residual_scale", IsGranite},
    ReadOfSome{"expert_shared_feed_forward_length",
               [](Architecture a) { return a == Architecture::kQwen2Moe; }},
};

// Not read. With `neutral`, where it is given, nothing is computed otherwise than without the key.
struct Unread {
  std::string_view suffix;
  std::optional<double> neutral;
  std::string_view meaning;
};
constexpr std::array kUnread = {
    Unread{"attention.causal", 1, "every token sees those after it too"},
    Unread{"attention.clamp_kqv", 0, "queries, keys and values are clamped"},
    Unread{"attention.max_alibi_bias", 0, "scores fall off with distance"},
    Unread{"attention.scale", 0, "scores have a scale of their own"},
    Unread{"attention.sliding_window_pattern", 0, "some layers see a window and others all"},
    Unread{"attention.key_length_swa", {}, "layers with a window have heads of another size"},
    Unread{"attention.value_length_swa", {}, "layers with a window have heads of another size"},
    Unread{"attention.temperature_scale", 0, "queries grow with their position"},
    Unread{"attention.shared_kv_layers", 0, "layers use the keys and values of others"},
    Unread{"attention.recurrent_layers", 0, "layers keep a recurrent state"},
    Unread{"attention.q_lora_rank", 0, "queries go through a narrow matrix"},
    Unread{"attention.kv_lora_rank", 0, "keys and values go through a narrow matrix"},
    Unread{"attn_logit_softcapping", 0, "scores are capped softly"},
    Unread{"final_logit_softcapping", 0, "logits are capped softly"},
    Unread{"router_logit_softcapping", 0, "the router's logits are capped softly"},
    Unread{"embedding_scale", 1, "embeddings are multiplied"},
    Unread{"residual_scale", 1, "what a layer adds is multiplied"},
    Unread{"swin_norm", 0, "norms stand in other places"},
    Unread{"rope.freq_base_swa", {}, "layers with a window turn by another base"},
    Unread{"rope.dimension_count_swa", {}, "layers with a window turn other dimensions"},
    Unread{"rope.dimension_sections", {}, "positions have several numbers"},
    Unread{"rope.scaling.yarn_attn_factor", 1, "cosines and sines have another factor"},
    Unread{"rope.scaling.yarn_log_multiplier", 0, "cosines and sines have another factor"},
    Unread{"expert_shared_count", 0, "some experts are used by every token"},
    Unread{"expert_shared_feed_forward_length", 0, "some experts are used by every token"},
    Unread{"expert_group_count", 0, "experts are chosen in groups"},
    Unread{"expert_group_used_count", 0, "experts are chosen in groups"},
    Unread{"leading_dense_block_count", 0, "the first layers have no experts"},
    Unread{"interleave_moe_layer_step", 1, "only some layers have experts"},
    Unread{"moe_every_n_layers", 1, "only some layers have experts"},
    Unread{"nextn_predict_layers", 0, "the last layers draft, and are none of the model's"},
    Unread{"embedding_length_per_layer_input", 0, "every layer has embeddings of its own"},
    Unread{"full_attention_interval", 0, "layers keep a recurrent state"},
    Unread{"shortconv.l_cache", 0, "layers are convolutions"},
    Unread{"ssm.conv_kernel", 0, "layers keep a recurrent state"},
    Unread{"ssm.inner_size", 0, "layers keep a recurrent state"},
    Unread{"ssm.state_size", 0, "layers keep a recurrent state"},
    Unread{"ssm.time_step_rank", 0, "layers keep a recurrent state"},
    Unread{"ssm.group_count", 0, "layers keep a recurrent state"},
    Unread{"pooling_type", 0, "it makes embeddings of texts"},
};

bool IsRead(std::string_view suffix, Architecture architecture) {
  const bool has_decoder = architecture == Architecture::kT5 ||
                           architecture == Architecture::kBart ||
                           architecture == Architecture::kSwitch;
  const auto* const some = std::ranges::find(kReadOfSome, suffix, &ReadOfSome::suffix);
  if (some != kReadOfSome.end() && some->is_read(architecture)) return true;
  return std::ranges::find(kRead, suffix) != kRead.end() ||
         (has_decoder && std::ranges::find(kReadOfDecoders, suffix) != kReadOfDecoders.end());
}

// A flag is 0 or 1. None: it is no number.
std::optional<double> NumberOf(const GgufValue& value) {
  if (const bool* const flag = std::get_if<bool>(&value.data)) return *flag ? 1 : 0;
  const absl::StatusOr<double> number = ToFloat(value);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

absl::Status CheckUnread(const GgufKeyValue& entry, std::string_view suffix,
                         const std::string& name) {
  const auto* const rule = std::ranges::find(kUnread, suffix, &Unread::suffix);
  if (rule == kUnread.end()) {
    return Unimplemented(name, ": ", entry.key,
                         " is unknown here and may change what the model computes; if it does not, "
                         "remove it (gguf-py: gguf_new_metadata.py --remove-metadata ",
                         entry.key, ")");
  }
  const std::optional<double> number = NumberOf(entry.value);
  if (number && rule->neutral && *number == *rule->neutral) return absl::OkStatus();
  const std::string value = number ? Concat(" = ", *number) : "";
  return Unimplemented(name, ": ", entry.key, value, " is not supported: ", rule->meaning);
}

}  // namespace

absl::Status CheckGgufKeys(const GgufFile& file, Architecture architecture,
                           const std::string& name) {
  const std::string prefix = Concat(Name(architecture), ".");
  for (const GgufKeyValue& entry : file.metadata()) {
    std::string_view suffix = entry.key;
    if (!suffix.starts_with(prefix)) continue;
    suffix.remove_prefix(prefix.size());
    if (IsRead(suffix, architecture)) continue;
    OUTRIDER_RETURN_IF_ERROR(CheckUnread(entry, suffix, name));
  }
  return absl::OkStatus();
}

}  // namespace outrider
