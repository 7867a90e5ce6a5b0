#include "common/formats/models/hyperparameters_config_keys.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>

#include "common/base/quote.h"
#include "common/base/status.h"

namespace outrider {
namespace {

using KeyList = std::span<const std::string_view>;

// --- read ---

constexpr std::string_view kKeysOfRopeDecoders[] = {
    "max_position_embeddings",
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "vocab_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "layer_norm_eps",
    "hidden_act",
    "tie_word_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "sliding_window",
    "use_sliding_window",
    "layer_types",
    "clip_qkv",
    "max_window_layers",
    "sliding_window_pattern",
    "quantization_config",
};
constexpr std::string_view kKeysOfT5[] = {
    "n_positions",
    "d_model",
    "num_layers",
    "num_decoder_layers",
    "d_ff",
    "d_kv",
    "vocab_size",
    "num_heads",
    "layer_norm_epsilon",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
    "feed_forward_proj",
    "tie_word_embeddings",
    "scale_decoder_outputs",
    // Of Switch; and what the T5s derive from feed_forward_proj.
    "num_experts",
    "num_local_experts",
    "num_sparse_encoder_layers",
    "num_sparse_decoder_layers",
    "dense_act_fn",
    "is_gated_act",
};
constexpr std::string_view kKeysOfBart[] = {
    "max_position_embeddings",
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "vocab_size",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "scale_embedding",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "activation_function",
    "tie_word_embeddings",
};
constexpr std::string_view kKeysOfGpt2[] = {
    "n_positions",
    "n_embd",
    "n_layer",
    "vocab_size",
    "n_inner",
    "n_head",
    "layer_norm_epsilon",
    "activation_function",
    "tie_word_embeddings",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "add_cross_attention",
};

KeyList KeysReadOf(std::string_view type) {
  if (type == "gpt2") return kKeysOfGpt2;
  if (type == "bart") return kKeysOfBart;
  if (type == "t5" || type == "mt5" || type == "switch_transformers") return kKeysOfT5;
  return kKeysOfRopeDecoders;
}

// Read of decoders whose type begins like this.
struct KeyOfSome {
  std::string_view key;
  std::array<std::string_view, 6> types;
};
constexpr std::array<std::string_view, 6> kWithExperts = {"mixtral", "qwen2_moe",  "qwen3_moe",
                                                          "olmoe",   "granitemoe", "gpt_oss"};
constexpr KeyOfSome kKeysOfSome[] = {
    {"hidden_activation", {"gemma"}},
    {"use_bidirectional_attention", {"gemma"}},
    {"attn_logit_softcapping", {"gemma2", "gemma3"}},
    {"final_logit_softcapping", {"gemma2", "gemma3"}},
    {"query_pre_attn_scalar", {"gemma2", "gemma3"}},
    {"rope_local_base_freq", {"gemma3"}},
    {"_sliding_window_pattern", {"gemma3", "cohere2"}},
    {"embedding_multiplier", {"granite"}},
    {"residual_multiplier", {"granite"}},
    {"attention_multiplier", {"granite"}},
    {"logits_scaling", {"granite"}},
    {"no_rope_layers", {"smollm3"}},
    {"no_rope_layer_interval", {"smollm3"}},
    {"original_max_position_embeddings", {"phi3"}},
    {"qk_layernorm", {"stablelm"}},
    {"use_parallel_residual", {"stablelm"}},
    {"logit_scale", {"cohere2"}},
    {"swiglu_limit", {"gpt_oss"}},
    {"swiglu_alpha", {"gpt_oss"}},
    {"num_experts", kWithExperts},
    {"num_local_experts", kWithExperts},
    {"num_experts_per_tok", kWithExperts},
    {"norm_topk_prob", kWithExperts},
    {"decoder_sparse_step", kWithExperts},
    {"mlp_only_layers", kWithExperts},
    {"moe_intermediate_size", {"qwen2_moe", "qwen3_moe"}},
    {"shared_expert_intermediate_size", {"qwen2_moe"}},
};

bool IsReadKey(std::string_view key, std::string_view type) {
  if (std::ranges::find(KeysReadOf(type), key) != KeysReadOf(type).end()) return true;
  const auto* const some = std::ranges::find(kKeysOfSome, key, &KeyOfSome::key);
  return some != std::end(kKeysOfSome) && std::ranges::any_of(some->types, [&](auto start) {
           return !start.empty() && type.starts_with(start);
         });
}

// --- harmless by name ---

// Who wrote it, and with what; tokens, of which the tokenizer and the device's options are asked;
// training, and how a text was once to be chosen.
constexpr std::string_view kBookkeeping[] = {
    "_name_or_path",
    "_commit_hash",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_from_model_config",
    "_flash_attn_2_enabled",
    "attn_implementation",
    "architectures",
    "auto_map",
    "base_model_ep_plan",
    "base_model_tp_plan",
    "base_model_pp_plan",
    "cache_implementation",
    "dtype",
    "finetuning_task",
    "id2label",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "language",
    "license",
    "max_sequence_length",
    "model_max_length",
    "model_type",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "problem_type",
    "return_dict",
    "return_dict_in_generate",
    "task_specific_params",
    "tf_legacy_loss",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",

    "bos_token_id",
    "decoder_start_token_id",
    "eos_token_id",
    "force_bos_token_to_be_generated",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "unk_token_id",

    "activation_dropout",
    "attention_dropout",
    "attn_pdrop",
    "classif_dropout",
    "classifier_dropout",
    "decoder_layerdrop",
    "dropout",
    "dropout_rate",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_layerdrop",
    "gradient_checkpointing",
    "hidden_dropout",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "output_router_logits",
    "resid_pdrop",
    "residual_dropout",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "router_z_loss_coef",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",

    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "prefix",
    "remove_invalid_values",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
};

// Of the model, and yet it makes no difference to what is computed: in how many pieces or with how many
// bits transformers does it; whether there are biases, which the tensors say; what another key says too.
constexpr std::string_view kSaidElsewhere[] = {
    "chunk_size_feed_forward",
    "is_decoder",
    "is_encoder_decoder",
    "pretraining_tp",
    "reorder_and_upcast_attn",
    "tie_encoder_decoder",

    "attention_bias",
    "mlp_bias",
    "qkv_bias",
    "use_qkv_bias",

    "experts_per_token",       // gpt-oss
    "initial_context_length",  // gpt-oss
    "layer_switch",            // Cohere 2
    "n_ctx",                   // GPT-2
    "sliding_window_size",     // Gemma 2
    "use_embedding_sharing",   // Cohere 2
};

// Of encoder-decoders, which are read and converted and not run here: what their routers do with more
// tokens than an expert takes, and Bart's other name for encoder_layers.
constexpr std::string_view kOfEncoderDecoders[] = {
    "add_router_probs",  "decoder_sparse_step", "encoder_sparse_step",          "expert_capacity",
    "router_bias",       "router_dtype",        "router_ignore_padding_tokens", "router_type",
    "num_hidden_layers", "save_step",           "extra_pos_embeddings",
};

bool IsHarmlessKey(std::string_view key, std::string_view type) {
  const auto is_of = [&](KeyList keys) { return std::ranges::find(keys, key) != keys.end(); };
  const bool has_encoder =
      KeysReadOf(type).data() == kKeysOfT5 || KeysReadOf(type).data() == kKeysOfBart;
  return is_of(kBookkeeping) || is_of(kSaidElsewhere) || (has_encoder && is_of(kOfEncoderDecoders));
}

// --- others ---

// Not read. Where its value is `neutral`, a piece of JSON, nothing is computed otherwise than without it.
struct UnreadKey {
  std::string_view key;
  const char* neutral;  // null: there is none
  std::string_view meaning;
};
constexpr UnreadKey kUnreadKeys[] = {
    {"add_bias_logits", "false", "logits have biases of their own"},
    {"add_cross_attention", "false", "its layers look at an encoder"},
    {"add_final_layer_norm", "false", "norms stand in other places"},
    {"alibi", "false", "scores fall off with distance"},
    {"attention_chunk_size", nullptr, "attention goes in chunks"},
    {"attention_multiplier", nullptr, "scores have a scale of their own"},
    {"attn_logit_softcapping", nullptr, "scores are capped softly"},
    {"cross_attention_hidden_size", nullptr, "its layers look at an encoder"},
    {"dual_chunk_attention_config", nullptr, "attention goes in chunks"},
    {"embedding_multiplier", "1", "embeddings are multiplied"},
    {"final_logit_softcapping", nullptr, "logits are capped softly"},
    {"first_k_dense_replace", "0", "the first layers have no experts"},
    {"full_attn_mod", "1", "only some layers see everything"},
    {"interpolate_factor", "1", "positions are interpolated"},
    {"lm_head_bias", "false", "the head has a bias"},
    {"logit_scale", "1", "logits are multiplied"},
    {"logits_scaling", "1", "logits are divided"},
    {"n_shared_experts", "0", "some experts are used by every token"},
    {"normalize_before", "false", "norms stand in other places"},
    {"normalize_embedding", "true", "embeddings are not normalised"},
    {"num_experts", "0", "its layers have experts"},
    {"num_experts_per_tok", "0", "its layers have experts"},
    {"num_local_experts", "0", "its layers have experts"},
    {"num_nextn_predict_layers", "0", "the last layers draft, and are none of the model's"},
    {"order_of_interleaved_layers", "\"local_attn_first\"", "windows are of other layers"},
    {"position_embedding_type", "\"rope_gptj\"", "positions are told in another way"},
    {"pruned_heads", "{}", "some heads are missing"},
    {"query_pre_attn_scalar", nullptr, "scores have a scale of their own"},
    {"residual_multiplier", "1", "what a layer adds is multiplied"},
    {"rope_interleaved", "false", "other pairs of dimensions turn"},
    {"rotary_pct", "1", "a part of each head turns"},
    {"shared_intermediate_size", "0", "some experts are used by every token"},
    {"static_position_embeddings", "false", "positions are told in another way"},
    {"swiglu_limit", nullptr, "gates are clamped"},
    {"use_bidirectional_attention", "false", "every token sees those after it too"},
    {"use_gated_activation", "true", "its feed-forward parts have no gate"},
    {"use_logn_attn", "false", "queries grow with their position"},
    {"use_mrope", "false", "positions have several numbers"},
    {"use_parallel_block", "true", "attention and feed-forward part follow one another"},
    {"use_parallel_embedding", "false", "embeddings are put together in another way"},
    {"use_qk_norm", "false", "queries and keys are normalised"},
};

// " is 0.5 and", of a value that is short enough.
std::string ShortValue(const Json& value) {
  constexpr size_t kLengthMax = 40;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() > kLengthMax ? "" : Concat(" is ", text, " and");
}

absl::Status UnknownKey(const Section& section, const std::string& key) {
  return Unimplemented(section.file(), ": key ", Quote(section.Name(key.c_str())),
                       " is unknown here and may change what the model computes; if it does not, "
                       "remove it from the file");
}

absl::Status CheckUnreadKey(const Section& config, const std::string& key, const Json& value) {
  const auto* const rule = std::ranges::find(kUnreadKeys, key, &UnreadKey::key);
  if (rule == std::end(kUnreadKeys)) return UnknownKey(config, key);
  // To JSON's comparison 1.0 is 1.
  if (rule->neutral != nullptr && value == Json::parse(rule->neutral)) return absl::OkStatus();
  return config.Unsupported(key.c_str(), ShortValue(value), " is not supported: ", rule->meaning);
}

// Null says nothing, as everywhere.
absl::Status CheckAmong(const Section& section, KeyList known) {
  for (const auto& [key, value] : section.object().items()) {
    if (value.is_null() || std::ranges::find(known, key) != known.end()) continue;
    return UnknownKey(section, key);
  }
  return absl::OkStatus();
}

// Of every kind of scaling; one that a kind does not read, transformers does not read either.
constexpr std::string_view kOfRope[] = {
    "type",
    "rope_type",
    "rope_theta",
    "partial_rotary_factor",
    "factor",
    "attention_factor",
    "original_max_position_embeddings",
    "max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "truncate",
    "mscale",
    "mscale_all_dim",
    "llama_4_scaling_beta",
    "short_factor",
    "long_factor",
    "short_mscale",
    "long_mscale",
    "full_attention",
    "sliding_attention",
};

constexpr std::string_view kAroundText[] = {
    "text_config",          "vision_config",       "tie_word_embeddings",
    "image_token_id",       "image_token_index",   "boi_token_index",
    "eoi_token_index",      "mm_tokens_per_image", "multimodal_projector_bias",
    "projector_hidden_act", "spatial_merge_size",  "vision_feature_layer",
    "quantization_config",
};

}  // namespace

absl::Status CheckConfigKeys(const Section& config, std::string_view model_type) {
  for (const auto& [key, value] : config.object().items()) {
    if (value.is_null() || IsReadKey(key, model_type) || IsHarmlessKey(key, model_type)) continue;
    OUTRIDER_RETURN_IF_ERROR(CheckUnreadKey(config, key, value));
  }
  return absl::OkStatus();
}

absl::Status CheckSeeingKeys(const Section& config) {
  for (const auto& [key, value] : config.object().items()) {
    const bool is_around = std::ranges::find(kAroundText, key) != std::end(kAroundText);
    if (!value.is_null() && !is_around && !IsHarmlessKey(key, "")) return UnknownKey(config, key);
  }
  return absl::OkStatus();
}

absl::Status CheckRopeKeys(const Section& rope) {
  return CheckAmong(rope, kOfRope);
}

}  // namespace outrider
