// config.json as Hugging Face's transformers writes it, from the first Llama to transformers 5.
//
// A key that is absent takes the default transformers gives it when that default does not depend on
// the size of one particular model; a size is never guessed, its absence is an error.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/hyperparameters_config_keys.h"
#include "common/formats/models/hyperparameters_config_parts.h"
#include "common/formats/models/hyperparameters_rules.h"
#include "common/formats/models/json_section.h"
#include "common/formats/tokenizers/json_fields.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

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
  if (model.tied_embeddings) model.output_scale = TiedT5OutputScale(model.embedding_length);
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

absl::StatusOr<Hyperparameters> ReadOfType(const Section& config, const std::string& type) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Hyperparameters> decoder,
                            ReadDecoder(config, type));
  if (decoder) return *decoder;
  if (type == "gpt2") return ReadGpt2(config);
  if (type == "t5") return ReadT5(config, false);
  if (type == "mt5") return ReadT5(config, true);
  if (type == "bart") return ReadBart(config);
  if (type == "switch_transformers") return ReadSwitch(config);
  if (const std::string_view missing = MissingPart(type); !missing.empty()) {
    return config.Unsupported("model_type", " \"", type, "\" cannot be run yet: ", missing);
  }
  return config.Unsupported("model_type", " \"", type,
                            "\" is not supported; these are: ", DecoderTypes(), "gpt2");
}

absl::StatusOr<Hyperparameters> ReadModelType(const Section& config) {
  if (!config.Has("model_type")) return config.Missing("model_type");
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, config.TextOr("model_type", ""));
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters model, ReadOfType(config, type));
  OUTRIDER_RETURN_IF_ERROR(CheckConfigKeys(config, type));
  return model;
}

// Models that look at images keep their decoder in a part of its own, and it is all that is read.
struct SeeingFamily {
  std::string_view model_type;
  const char* text_type;  // its decoder's, where that does not say so itself
};
constexpr SeeingFamily kSeeing[] = {{"gemma3", "gemma3_text"}, {"mistral3", "mistral"}};

// What transformers fills in of a Gemma 3 that looks at images, and the smallest one's files leave
// out.
constexpr std::pair<const char*, uint32_t> kGemma3Sizes[] = {{"num_attention_heads", 8},
                                                             {"num_key_value_heads", 4},
                                                             {"head_dim", 256},
                                                             {"vocab_size", 262208},
                                                             {"max_position_embeddings", 131072}};

// The decoder's part, whole; nothing of a model that is one altogether.
absl::StatusOr<std::optional<Json>> ReadTextPart(const Section& config) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, config.TextOr("model_type", ""));
  const auto* const family = std::ranges::find(kSeeing, type, &SeeingFamily::model_type);
  if (family == std::end(kSeeing)) return std::nullopt;
  constexpr const char* kKey = "text_config";
  const Json* const part = config.Find(kKey);
  if (part == nullptr) return config.Missing(kKey);
  if (!part->is_object()) return config.Invalid(kKey, " is ", part->type_name(), ", not an object");
  OUTRIDER_RETURN_IF_ERROR(CheckSeeingKeys(config));
  Json text = *part;
  text.emplace("model_type", family->text_type);
  if (const Json* const tied = config.Find("tie_word_embeddings")) {
    text.emplace("tie_word_embeddings", *tied);
  }
  if (type == "gemma3") {
    for (const auto& [key, size] : kGemma3Sizes) text.emplace(key, size);
  }
  return text;
}

// All but gpt-oss as it is published.
absl::Status RefuseQuantised(const Section& config) {
  const Json* quantization = config.Find("quantization_config");
  if (quantization == nullptr) return absl::OkStatus();
  std::string method = "an unnamed method";
  if (quantization->is_object()) {
    const auto found = quantization->find("quant_method");
    if (found != quantization->end() && found->is_string()) method = found->get<std::string>();
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, config.TextOr("model_type", ""));
  if (method == "mxfp4" && type == "gpt_oss") return absl::OkStatus();
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
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, ParseJson(config_json, name));
  if (!json.is_object()) {
    return InvalidArgument(name, ": is not a JSON object as config.json must be");
  }
  const Section config(json, name);
  OUTRIDER_RETURN_IF_ERROR(RefuseQuantised(config));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Json> text, ReadTextPart(config));
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters model,
                            ReadModelType(text ? Section(*text, name, "text_config.") : config));
  if (model.experts.count == 0) model.experts = Experts{};
  OUTRIDER_RETURN_IF_ERROR(CheckHyperparameters(model, KeysOf(model), name));
  model.name = std::filesystem::path(name).parent_path().filename().string();
  return model;
}

}  // namespace outrider
