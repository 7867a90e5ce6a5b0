// config.json as Hugging Face's transformers writes it, from the first Llama to transformers 5.
//
// A key that is absent takes the default transformers gives it when that default does not depend on
// the size of one particular model; a size is never guessed, its absence is an error.
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/hyperparameters_rules.h"
#include "common/formats/models/json_section.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

absl::StatusOr<Activation> ActivationFromName(const Section& config, const char* key,
                                              std::string_view name) {
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Activation::kGeluTanh;
  }
  if (name == "relu") return Activation::kRelu;
  return config.Unsupported(key, " names activation \"", name,
                            "\"; supported are silu, gelu, gelu_new and relu");
}

absl::Status ReadActivation(const Section& config, const char* key, const char* fallback,
                            Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string name, config.TextOr(key, fallback));
  OUTRIDER_ASSIGN_OR_RETURN(model.activation, ActivationFromName(config, key, name));
  return absl::OkStatus();
}

// The same heads in every block.
void FillHeads(Hyperparameters& model, uint32_t heads, uint32_t heads_kv) {
  model.head_count.assign(model.total_block_count(), heads);
  model.head_count_kv.assign(model.total_block_count(), heads_kv);
}

// The embedding shared out among the heads, for models that do not give a head's length.
absl::StatusOr<uint32_t> SharedHeadLength(const Section& config, const char* embedding_key,
                                          const char* heads_key, uint32_t embedding,
                                          uint32_t heads) {
  if (embedding % heads != 0) {
    return config.Invalid(embedding_key, " is ", embedding, ", no multiple of ", heads_key, ", ",
                          heads);
  }
  return embedding / heads;
}

// --- rope ---

// transformers 5 keeps everything in rope_parameters; before that there were rope_theta and
// rope_scaling, whose "rope_type" was once "type".
absl::Status ReadRopeScaling(const Section& scaling, uint32_t context_length, Rope& rope) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string old_type, scaling.TextOr("type", "default"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, scaling.TextOr("rope_type", old_type));
  OUTRIDER_ASSIGN_OR_RETURN(rope.base, scaling.PositiveOr("rope_theta", rope.base));
  OUTRIDER_ASSIGN_OR_RETURN(const float part, scaling.PositiveOr("partial_rotary_factor", 1.0f));
  if (part != 1.0f) {
    return scaling.Unsupported("partial_rotary_factor", " is ", part,
                               ", but only whole heads can be turned");
  }
  if (type == "default") return absl::OkStatus();

  OUTRIDER_ASSIGN_OR_RETURN(rope.factor, scaling.PositiveOr("factor", 1.0f));
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    return scaling.Positive("factor").status();
  }
  if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    OUTRIDER_RETURN_IF_ERROR(scaling.Positive("factor").status());
    OUTRIDER_ASSIGN_OR_RETURN(rope.low_frequency_factor, scaling.Positive("low_freq_factor"));
    OUTRIDER_ASSIGN_OR_RETURN(rope.high_frequency_factor, scaling.Positive("high_freq_factor"));
    OUTRIDER_ASSIGN_OR_RETURN(rope.original_context_length,
                              scaling.Count("original_max_position_embeddings", kMaxContext));
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
      return scaling.Invalid("high_freq_factor", " is ", rope.high_frequency_factor,
                             ", must exceed low_freq_factor, ", rope.low_frequency_factor);
    }
    return absl::OkStatus();
  }
  if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    for (const char* key : {"mscale", "mscale_all_dim", "truncate"}) {
      if (scaling.Has(key)) return scaling.Unsupported(key, " of yarn scaling is not supported");
    }
    OUTRIDER_ASSIGN_OR_RETURN(
        rope.original_context_length,
        scaling.CountOr("original_max_position_embeddings", kMaxContext, context_length));
    if (!scaling.Has("factor")) {
      rope.factor =
          static_cast<float>(context_length) / static_cast<float>(rope.original_context_length);
    }
    OUTRIDER_ASSIGN_OR_RETURN(
        rope.attention_factor,
        scaling.PositiveOr("attention_factor", YarnAttentionFactor(rope.factor)));
    OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_fast, scaling.PositiveOr("beta_fast", 32.0f));
    OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_slow, scaling.PositiveOr("beta_slow", 1.0f));
    return absl::OkStatus();
  }
  return scaling.Unsupported("rope_type", " is \"", type,
                             "\"; supported are default, linear, yarn and llama3");
}

absl::Status ReadRope(const Section& config, Hyperparameters& model) {
  model.rope.dimension_count = model.key_length;
  OUTRIDER_ASSIGN_OR_RETURN(model.rope.base, config.PositiveOr("rope_theta", model.rope.base));
  OUTRIDER_ASSIGN_OR_RETURN(const float part, config.PositiveOr("partial_rotary_factor", 1.0f));
  if (part != 1.0f) {
    return config.Unsupported("partial_rotary_factor", " is ", part,
                              ", but only whole heads can be turned");
  }
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* scaling = config.Find(key);
    if (scaling == nullptr) continue;
    if (!scaling->is_object()) {
      return config.Invalid(key, " is ", scaling->type_name(), ", not an object");
    }
    return ReadRopeScaling(Section(*scaling, config.file(), Concat(key, ".")), model.context_length,
                           model.rope);
  }
  return absl::OkStatus();
}

// --- attention windows ---

// A window holds for all blocks or for none: transformers 5 lists each block's kind in layer_types,
// older Qwen files give the first block that has it.
absl::Status ReadSlidingWindow(const Section& config, bool needs_flag, Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(const bool used, config.FlagOr("use_sliding_window", !needs_flag));
  if (!used || !config.Has("sliding_window")) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t window, config.Count("sliding_window", kMaxContext));

  uint32_t sliding = model.block_count;
  if (const Json* types = config.Find("layer_types"); types != nullptr) {
    if (!types->is_array() || types->size() != model.block_count) {
      return config.Invalid("layer_types", " must list ", model.block_count, " blocks");
    }
    sliding = 0;
    for (const Json& type : *types) {
      if (type == "sliding_attention") {
        ++sliding;
      } else if (type != "full_attention") {
        return config.Unsupported("layer_types", " may list full_attention and sliding_attention");
      }
    }
  } else if (config.Has("max_window_layers")) {
    OUTRIDER_ASSIGN_OR_RETURN(const uint32_t full,
                              config.CountOrZero("max_window_layers", kMaxBlockCount, 0));
    sliding = full < model.block_count ? model.block_count - full : 0;
  }
  if (sliding == 0) return absl::OkStatus();
  if (sliding < model.block_count) {
    return config.Unsupported("sliding_window", " holds for ", sliding, " of ", model.block_count,
                              " blocks; it must hold for all or none");
  }
  model.sliding_window = window;
  return absl::OkStatus();
}

// --- decoders ---

struct DecoderFamily {
  const char* model_type;
  Architecture architecture;
  float norm_epsilon;      // transformers' default
  bool needs_heads_kv;     // its default is the size of one model, so the key must be there
  bool window_needs_flag;  // sliding_window counts only with use_sliding_window
};

constexpr std::array kDecoderFamilies = {
    DecoderFamily{"llama", Architecture::kLlama, 1e-6f, false, true},
    DecoderFamily{"mistral", Architecture::kLlama, 1e-6f, true, false},
    DecoderFamily{"mixtral", Architecture::kLlama, 1e-5f, true, false},
    DecoderFamily{"qwen2", Architecture::kQwen2, 1e-6f, true, true},
    DecoderFamily{"qwen3", Architecture::kQwen3, 1e-6f, true, true},
    DecoderFamily{"qwen3_moe", Architecture::kQwen3Moe, 1e-6f, true, true},
    DecoderFamily{"olmoe", Architecture::kOlmoe, 1e-5f, false, true},
};

// num_local_experts or num_experts: transformers 5 writes either, whichever the model had first.
absl::StatusOr<uint32_t> ExpertCount(const Section& config) {
  return config.Has("num_local_experts") ? config.Count("num_local_experts", kMaxExpertCount)
                                         : config.Count("num_experts", kMaxExpertCount);
}

// Qwen: a block is dense when it is listed, or when its number is no multiple of the step.
absl::Status ReadExpertBlocks(const Section& config, Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t step,
                            config.CountOr("decoder_sparse_step", kMaxBlockCount, 1));
  model.experts.blocks.resize(model.block_count);
  for (uint32_t block = 0; block < model.block_count; ++block) {
    model.experts.blocks[block] = (block + 1) % step == 0;
  }
  const Json* dense = config.Find("mlp_only_layers");
  if (dense == nullptr) return absl::OkStatus();
  if (!dense->is_array()) return config.Invalid("mlp_only_layers", " is not an array");
  for (const Json& block : *dense) {
    if (!block.is_number_unsigned() || block.get<uint64_t>() >= model.block_count) {
      return config.Invalid("mlp_only_layers", " names a block that is not there; there are ",
                            model.block_count);
    }
    model.experts.blocks[block.get<size_t>()] = false;
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(const Section& config, std::string_view model_type,
                         Hyperparameters& model) {
  Experts& experts = model.experts;
  OUTRIDER_ASSIGN_OR_RETURN(experts.count, ExpertCount(config));
  OUTRIDER_ASSIGN_OR_RETURN(experts.used_count,
                            config.Count("num_experts_per_tok", kMaxExpertCount));
  const bool own_length = model_type == "qwen3_moe";
  OUTRIDER_ASSIGN_OR_RETURN(
      experts.feed_forward_length,
      config.Count(own_length ? "moe_intermediate_size" : "intermediate_size", kMaxWidth));
  // Mixtral always renormalises; the others have a key for it.
  OUTRIDER_ASSIGN_OR_RETURN(experts.renormalize,
                            config.FlagOr("norm_topk_prob", model_type == "mixtral"));
  return ReadExpertBlocks(config, model);
}

absl::StatusOr<Hyperparameters> ReadDecoder(const Section& config, const DecoderFamily& family) {
  Hyperparameters model = ArchitectureDefaults(family.architecture);
  OUTRIDER_ASSIGN_OR_RETURN(model.context_length,
                            config.Count("max_position_embeddings", kMaxContext));
  OUTRIDER_ASSIGN_OR_RETURN(model.embedding_length, config.Count("hidden_size", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.block_count, config.Count("num_hidden_layers", kMaxBlockCount));
  OUTRIDER_ASSIGN_OR_RETURN(model.feed_forward_length,
                            config.Count("intermediate_size", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.vocabulary_size, config.Count("vocab_size", kMaxVocabulary));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t heads,
                            config.Count("num_attention_heads", kMaxHeadCount));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t heads_kv,
                            family.needs_heads_kv
                                ? config.Count("num_key_value_heads", kMaxHeadCount)
                                : config.CountOr("num_key_value_heads", kMaxHeadCount, heads));
  FillHeads(model, heads, heads_kv);
  if (config.Has("head_dim")) {
    OUTRIDER_ASSIGN_OR_RETURN(model.key_length, config.Count("head_dim", kMaxHeadLength));
  } else if (family.architecture == Architecture::kQwen3) {
    return config.Missing("head_dim");
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(model.key_length,
                              SharedHeadLength(config, "hidden_size", "num_attention_heads",
                                               model.embedding_length, heads));
  }
  model.value_length = model.key_length;

  OUTRIDER_ASSIGN_OR_RETURN(model.norm_epsilon,
                            config.PositiveOr("rms_norm_eps", family.norm_epsilon));
  OUTRIDER_RETURN_IF_ERROR(ReadActivation(config, "hidden_act", "silu", model));
  OUTRIDER_ASSIGN_OR_RETURN(model.tied_embeddings, config.FlagOr("tie_word_embeddings", false));
  const std::string_view model_type = family.model_type;
  if (model_type == "mixtral") model.rope.base = 1e6f;
  OUTRIDER_RETURN_IF_ERROR(ReadRope(config, model));
  OUTRIDER_RETURN_IF_ERROR(ReadSlidingWindow(config, family.window_needs_flag, model));
  if (config.Has("clip_qkv")) {
    return config.Unsupported("clip_qkv", " is set, and clipping is not supported");
  }
  if (model_type == "mixtral" || model_type == "qwen3_moe" || model_type == "olmoe") {
    OUTRIDER_RETURN_IF_ERROR(ReadExperts(config, model_type, model));
  }
  return model;
}

absl::StatusOr<Hyperparameters> ReadGpt2(const Section& config) {
  Hyperparameters model = ArchitectureDefaults(Architecture::kGpt2);
  OUTRIDER_ASSIGN_OR_RETURN(model.context_length, config.Count("n_positions", kMaxContext));
  OUTRIDER_ASSIGN_OR_RETURN(model.embedding_length, config.Count("n_embd", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.block_count, config.Count("n_layer", kMaxBlockCount));
  OUTRIDER_ASSIGN_OR_RETURN(model.vocabulary_size, config.Count("vocab_size", kMaxVocabulary));
  OUTRIDER_ASSIGN_OR_RETURN(model.feed_forward_length,
                            config.CountOr("n_inner", kMaxWidth, 4 * model.embedding_length));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t heads, config.Count("n_head", kMaxHeadCount));
  FillHeads(model, heads, heads);
  OUTRIDER_ASSIGN_OR_RETURN(model.key_length, SharedHeadLength(config, "n_embd", "n_head",
                                                               model.embedding_length, heads));
  model.value_length = model.key_length;
  OUTRIDER_ASSIGN_OR_RETURN(model.norm_epsilon, config.PositiveOr("layer_norm_epsilon", 1e-5f));
  OUTRIDER_RETURN_IF_ERROR(ReadActivation(config, "activation_function", "gelu_new", model));
  OUTRIDER_ASSIGN_OR_RETURN(model.tied_embeddings, config.FlagOr("tie_word_embeddings", true));
  for (const auto& [key, plain] :
       {std::pair{"scale_attn_weights", true}, std::pair{"scale_attn_by_inverse_layer_idx", false},
        std::pair{"add_cross_attention", false}}) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool value, config.FlagOr(key, plain));
    if (value != plain) return config.Unsupported(key, " = ", value, " is not supported");
  }
  return model;
}

// --- encoder-decoder models ---

// T5, mT5 and Switch share all but the feed-forward part.
absl::Status ReadT5Common(const Section& config, Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(model.context_length, config.CountOr("n_positions", kMaxContext, 512));
  OUTRIDER_ASSIGN_OR_RETURN(model.embedding_length, config.Count("d_model", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.block_count, config.Count("num_layers", kMaxBlockCount));
  OUTRIDER_ASSIGN_OR_RETURN(
      model.decoder_block_count,
      config.CountOr("num_decoder_layers", kMaxBlockCount, model.block_count));
  OUTRIDER_ASSIGN_OR_RETURN(model.feed_forward_length, config.Count("d_ff", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.vocabulary_size, config.Count("vocab_size", kMaxVocabulary));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t heads, config.Count("num_heads", kMaxHeadCount));
  FillHeads(model, heads, heads);
  OUTRIDER_ASSIGN_OR_RETURN(model.key_length, config.Count("d_kv", kMaxHeadLength));
  model.value_length = model.key_length;
  OUTRIDER_ASSIGN_OR_RETURN(model.norm_epsilon, config.PositiveOr("layer_norm_epsilon", 1e-6f));
  OUTRIDER_ASSIGN_OR_RETURN(model.relative_buckets, config.CountOr("relative_attention_num_buckets",
                                                                   kMaxRelativeBuckets, 32));
  OUTRIDER_ASSIGN_OR_RETURN(model.relative_max_distance,
                            config.CountOr("relative_attention_max_distance", kMaxContext, 128));
  // T5 starts its answers with the padding token.
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t padding,
                            config.CountOrZero("pad_token_id", kMaxVocabulary, 0));
  OUTRIDER_ASSIGN_OR_RETURN(model.decoder_start_token,
                            config.CountOrZero("decoder_start_token_id", kMaxVocabulary, padding));
  return absl::OkStatus();
}

absl::StatusOr<Hyperparameters> ReadT5(const Section& config, bool is_mt5) {
  Hyperparameters model = ArchitectureDefaults(Architecture::kT5);
  OUTRIDER_RETURN_IF_ERROR(ReadT5Common(config, model));
  constexpr const char* kKey = "feed_forward_proj";
  OUTRIDER_ASSIGN_OR_RETURN(std::string projection,
                            config.TextOr(kKey, is_mt5 ? "gated-gelu" : "relu"));
  constexpr std::string_view kGated = "gated-";
  model.gated = projection.starts_with(kGated);
  if (model.gated) projection.erase(0, kGated.size());
  // "gated-gelu" always meant the tanh form.
  if (model.gated && projection == "gelu") projection = "gelu_new";
  OUTRIDER_ASSIGN_OR_RETURN(model.activation, ActivationFromName(config, kKey, projection));

  // Only the first T5 ties its embeddings, and only then the decoder's output is scaled.
  // transformers 5 writes tie_word_embeddings = true for all of them and tells them apart by
  // scale_decoder_outputs; whether there is an output matrix, the tensors say.
  OUTRIDER_ASSIGN_OR_RETURN(model.tied_embeddings, config.FlagOr("tie_word_embeddings", !is_mt5));
  OUTRIDER_ASSIGN_OR_RETURN(const bool scaled,
                            config.FlagOr("scale_decoder_outputs", model.tied_embeddings));
  if (scaled) model.output_scale = TiedT5OutputScale(model.embedding_length);
  return model;
}

// Switch makes block i sparse when i mod step is 1, and every block when the step is 1. (A step of
// 0, more sparse blocks than blocks, makes none.)
absl::Status ReadSwitchBlocks(const Section& config, const char* key, uint32_t block_count,
                              Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t sparse, config.CountOrZero(key, kMaxBlockCount, 3));
  const uint32_t step = sparse > 0 ? block_count / sparse : block_count;
  for (uint32_t block = 0; block < block_count; ++block) {
    model.experts.blocks.push_back(step == 1 || (step > 1 && block % step == 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<Hyperparameters> ReadSwitch(const Section& config) {
  Hyperparameters model = ArchitectureDefaults(Architecture::kSwitch);
  OUTRIDER_RETURN_IF_ERROR(ReadT5Common(config, model));
  OUTRIDER_RETURN_IF_ERROR(ReadActivation(config, "dense_act_fn", "relu", model));
  OUTRIDER_ASSIGN_OR_RETURN(model.experts.count, ExpertCount(config));
  model.experts.used_count = 1;
  model.experts.feed_forward_length = model.feed_forward_length;
  OUTRIDER_RETURN_IF_ERROR(
      ReadSwitchBlocks(config, "num_sparse_encoder_layers", model.block_count, model));
  OUTRIDER_RETURN_IF_ERROR(
      ReadSwitchBlocks(config, "num_sparse_decoder_layers", model.decoder_block_count, model));
  OUTRIDER_ASSIGN_OR_RETURN(model.tied_embeddings, config.FlagOr("tie_word_embeddings", true));
  return model;
}

absl::StatusOr<Hyperparameters> ReadBart(const Section& config) {
  Hyperparameters model = ArchitectureDefaults(Architecture::kBart);
  OUTRIDER_ASSIGN_OR_RETURN(model.context_length,
                            config.Count("max_position_embeddings", kMaxContext));
  OUTRIDER_ASSIGN_OR_RETURN(model.embedding_length, config.Count("d_model", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.block_count, config.Count("encoder_layers", kMaxBlockCount));
  OUTRIDER_ASSIGN_OR_RETURN(model.decoder_block_count,
                            config.Count("decoder_layers", kMaxBlockCount));
  OUTRIDER_ASSIGN_OR_RETURN(model.vocabulary_size, config.Count("vocab_size", kMaxVocabulary));
  OUTRIDER_ASSIGN_OR_RETURN(model.feed_forward_length, config.Count("encoder_ffn_dim", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t decoder_length,
                            config.Count("decoder_ffn_dim", kMaxWidth));
  if (decoder_length != model.feed_forward_length) {
    return config.Unsupported("decoder_ffn_dim", " is ", decoder_length,
                              ", and must equal encoder_ffn_dim, ", model.feed_forward_length);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t heads,
                            config.Count("encoder_attention_heads", kMaxHeadCount));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t decoder_heads,
                            config.Count("decoder_attention_heads", kMaxHeadCount));
  if (decoder_heads != heads) {
    return config.Unsupported("decoder_attention_heads", " is ", decoder_heads,
                              ", and must equal encoder_attention_heads, ", heads);
  }
  FillHeads(model, heads, heads);
  OUTRIDER_ASSIGN_OR_RETURN(model.key_length,
                            SharedHeadLength(config, "d_model", "encoder_attention_heads",
                                             model.embedding_length, heads));
  model.value_length = model.key_length;
  OUTRIDER_RETURN_IF_ERROR(ReadActivation(config, "activation_function", "gelu", model));
  OUTRIDER_ASSIGN_OR_RETURN(model.scale_embeddings, config.FlagOr("scale_embedding", false));
  OUTRIDER_ASSIGN_OR_RETURN(model.tied_embeddings, config.FlagOr("tie_word_embeddings", true));
  OUTRIDER_ASSIGN_OR_RETURN(model.decoder_start_token,
                            config.CountOrZero("decoder_start_token_id", kMaxVocabulary, 2));
  return model;
}

// --- all of them ---

absl::StatusOr<Hyperparameters> ReadModelType(const Section& config) {
  if (!config.Has("model_type")) return config.Missing("model_type");
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, config.TextOr("model_type", ""));
  std::string supported;
  for (const DecoderFamily& family : kDecoderFamilies) {
    if (type == family.model_type) return ReadDecoder(config, family);
    supported += Concat(family.model_type, ", ");
  }
  if (type == "gpt2") return ReadGpt2(config);
  if (type == "t5") return ReadT5(config, false);
  if (type == "mt5") return ReadT5(config, true);
  if (type == "bart") return ReadBart(config);
  if (type == "switch_transformers") return ReadSwitch(config);
  return config.Unsupported("model_type", " \"", type,
                            "\" is not supported; these are: ", supported,
                            "gpt2, t5, mt5, bart, switch_transformers");
}

absl::Status RefuseQuantised(const Section& config) {
  const Json* quantization = config.Find("quantization_config");
  if (quantization == nullptr) return absl::OkStatus();
  std::string method = "an unnamed method";
  if (quantization->is_object()) {
    const auto found = quantization->find("quant_method");
    if (found != quantization->end() && found->is_string()) method = found->get<std::string>();
  }
  return config.Unsupported("quantization_config", " says the weights are quantised with ", method,
                            "; use the original checkpoint or a GGUF file");
}

HyperparameterKeys KeysOf(const Hyperparameters& model) {
  const bool is_gpt2 = model.architecture == Architecture::kGpt2;
  return {.head_count = is_gpt2 ? "n_head" : "num_attention_heads",
          .head_count_kv = "num_key_value_heads",
          .rope_dimension_count = "head_dim",
          .expert_count = "num_experts",
          .expert_used_count = "num_experts_per_tok",
          .relative_buckets = "relative_attention_num_buckets"};
}

}  // namespace

absl::StatusOr<Hyperparameters> HyperparametersFromConfig(std::string_view config_json,
                                                          const std::string& name) {
  if (config_json.size() > kMaxConfigBytes) {
    return InvalidArgument(name, ": is ", config_json.size(), " bytes long, no config.json is");
  }
  const Json json = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return InvalidArgument(name, ": is not a JSON object as config.json must be");
  }
  const Section config(json, name);
  OUTRIDER_RETURN_IF_ERROR(RefuseQuantised(config));
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters model, ReadModelType(config));
  if (model.experts.count == 0) model.experts = Experts{};
  OUTRIDER_RETURN_IF_ERROR(CheckHyperparameters(model, KeysOf(model), name));
  model.name = std::filesystem::path(name).parent_path().filename().string();
  return model;
}

}  // namespace outrider
