// config.json of decoders with rope: Llama and all that came after it.
//
// What a family fixes by its name is a line of kFamilies; what its config.json says that others' do
// not is read by a function of its own.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/hyperparameters_config_parts.h"
#include "common/formats/models/hyperparameters_rules.h"
#include "common/formats/models/json_section.h"

namespace outrider {

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

void FillHeads(Hyperparameters& model, uint32_t heads, uint32_t heads_kv) {
  model.head_count.assign(model.total_block_count(), heads);
  model.head_count_kv.assign(model.total_block_count(), heads_kv);
}

absl::StatusOr<uint32_t> SharedHeadLength(const Section& config, const char* embedding_key,
                                          const char* heads_key, uint32_t embedding,
                                          uint32_t heads) {
  if (embedding % heads != 0) {
    return config.Invalid(embedding_key, " is ", embedding, ", no multiple of ", heads_key, ", ",
                          heads);
  }
  return embedding / heads;
}

absl::StatusOr<uint32_t> ExpertCount(const Section& config) {
  return config.Has("num_local_experts") ? config.Count("num_local_experts", kMaxExpertCount)
                                         : config.Count("num_experts", kMaxExpertCount);
}

namespace {

// Of which blocks a model's window may be.
enum class Windows {
  kNone,    // there are none
  kByFlag,  // all or none, and only with use_sliding_window
  kByKey,   // all or none: none without sliding_window
  kAll,     // all or none, which sliding_window says
  kMixed,   // each by its own
};

struct DecoderFamily {
  const char* model_type;
  Architecture architecture;
  float norm_epsilon;   // transformers' default
  bool needs_heads_kv;  // its default is the size of one model, so the key must be there
  Windows windows;
  bool tied = false;           // by default
  float part_turned = 1.0f;    // of a head, by default
  bool may_turn_part = false;  // of a head
};

constexpr std::array kFamilies = {
    DecoderFamily{"llama", Architecture::kLlama, 1e-6f, false, Windows::kNone},
    DecoderFamily{"mistral", Architecture::kLlama, 1e-6f, true, Windows::kAll},
    DecoderFamily{"ministral", Architecture::kLlama, 1e-6f, true, Windows::kAll},
    DecoderFamily{"ministral3", Architecture::kMistral3, 1e-5f, true, Windows::kByKey},
    DecoderFamily{"mixtral", Architecture::kLlama, 1e-5f, true, Windows::kByKey},
    DecoderFamily{"qwen2", Architecture::kQwen2, 1e-6f, true, Windows::kByFlag},
    DecoderFamily{"qwen2_moe", Architecture::kQwen2Moe, 1e-6f, true, Windows::kByFlag},
    DecoderFamily{"qwen3", Architecture::kQwen3, 1e-6f, true, Windows::kByFlag},
    DecoderFamily{"qwen3_moe", Architecture::kQwen3Moe, 1e-6f, true, Windows::kByFlag},
    DecoderFamily{"olmo2", Architecture::kOlmo2, 1e-5f, false, Windows::kNone},
    DecoderFamily{"olmoe", Architecture::kOlmoe, 1e-5f, false, Windows::kNone},
    DecoderFamily{"gemma", Architecture::kGemma, 1e-6f, true, Windows::kNone, true},
    DecoderFamily{"gemma2", Architecture::kGemma2, 1e-6f, true, Windows::kMixed, true},
    DecoderFamily{"gemma3_text", Architecture::kGemma3, 1e-6f, true, Windows::kMixed, true},
    DecoderFamily{"phi3", Architecture::kPhi3, 1e-5f, false, Windows::kByKey, false, 1.0f, true},
    DecoderFamily{"smollm3", Architecture::kSmolLm3, 1e-6f, true, Windows::kNone, true},
    DecoderFamily{"granite", Architecture::kGranite, 1e-6f, false, Windows::kNone},
    DecoderFamily{"granitemoe", Architecture::kGraniteMoe, 1e-6f, false, Windows::kNone},
    DecoderFamily{"stablelm", Architecture::kStableLm, 1e-5f, true, Windows::kNone, false, 0.25f,
                  true},
    DecoderFamily{"cohere2", Architecture::kCohere2, 1e-5f, false, Windows::kMixed, true},
    DecoderFamily{"exaone4", Architecture::kExaone4, 1e-5f, true, Windows::kMixed},
    DecoderFamily{"gpt_oss", Architecture::kGptOss, 1e-5f, true, Windows::kMixed},
};

// --- attention windows ---

// "sliding_attention" or "full_attention" for every block.
absl::StatusOr<std::vector<bool>> ReadLayerTypes(const Section& config, const Json& types,
                                                 uint32_t block_count) {
  if (!types.is_array() || types.size() != block_count) {
    return config.Invalid("layer_types", " must list ", block_count, " blocks");
  }
  std::vector<bool> blocks;
  for (const Json& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      return config.Unsupported("layer_types", " may list full_attention and sliding_attention");
    }
    blocks.push_back(type == "sliding_attention");
  }
  return blocks;
}

// Where there is no list of blocks: a number n, and every n-th sees everything, or a word of which
// each L is a block with the window ("LLLG").
absl::StatusOr<std::vector<bool>> ReadPattern(const Section& config, const Hyperparameters& model) {
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    const Json* const pattern = config.Find(key);
    if (pattern == nullptr) continue;
    if (!pattern->is_string()) {
      OUTRIDER_ASSIGN_OR_RETURN(const uint32_t step, config.Count(key, kMaxBlockCount));
      return AllButEvery(step, model.block_count);
    }
    const std::string word = pattern->get<std::string>();
    if (word.empty()) return config.Invalid(key, " is empty");
    std::vector<bool> blocks;
    for (uint32_t block = 0; block < model.block_count; ++block) {
      blocks.push_back(word[block % word.size()] == 'L');
    }
    return blocks;
  }
  return AllButEvery(WindowStep(model.architecture), model.block_count);
}

// Older Qwen files give the first block that has the window. Those with experts do not: of Qwen 2's
// transformers has given it to one block or another, of Qwen 3's to all.
absl::StatusOr<std::vector<bool>> ReadFirstWithWindow(const Section& config,
                                                      const Hyperparameters& model) {
  std::vector<bool> blocks(model.block_count, true);
  if (model.architecture == Architecture::kQwen3Moe) return blocks;
  if (model.architecture == Architecture::kQwen2Moe) return config.Missing("layer_types");
  if (!config.Has("max_window_layers")) return config.Missing("max_window_layers");
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t full,
                            config.CountOrZero("max_window_layers", kMaxBlockCount, 0));
  for (uint32_t block = 0; block < model.block_count; ++block) blocks[block] = block >= full;
  return blocks;
}

// Where there is no list of blocks.
absl::StatusOr<std::vector<bool>> ReadWindowBlocks(const Section& config, Windows windows,
                                                   const Hyperparameters& model) {
  if (windows == Windows::kMixed) return ReadPattern(config, model);
  if (windows == Windows::kByFlag) return ReadFirstWithWindow(config, model);
  return std::vector<bool>(model.block_count, true);
}

absl::Status ReadSlidingWindow(const Section& config, Windows windows, Hyperparameters& model) {
  if (windows == Windows::kNone || windows == Windows::kByFlag) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool used, config.FlagOr("use_sliding_window", false));
    if (!used) return absl::OkStatus();
    if (windows == Windows::kNone) {
      return config.Unsupported("use_sliding_window", " is not supported of this family");
    }
  }
  if (config.IsNull("sliding_window")) return absl::OkStatus();
  if (windows == Windows::kByKey && !config.Has("sliding_window")) return absl::OkStatus();
  // transformers' default is the size of one model.
  OUTRIDER_ASSIGN_OR_RETURN(model.sliding_window, config.Count("sliding_window", kMaxContext));
  const Json* const types = config.Find("layer_types");
  OUTRIDER_ASSIGN_OR_RETURN(model.window_blocks,
                            types != nullptr ? ReadLayerTypes(config, *types, model.block_count)
                                             : ReadWindowBlocks(config, windows, model));
  NormalizeWindows(model);
  if (!model.window_blocks.empty() && windows != Windows::kMixed) {
    const auto count = std::ranges::count(model.window_blocks, true);
    return config.Unsupported("sliding_window", " holds for ", count, " of ", model.block_count,
                              " blocks; it must hold for all or none");
  }
  return absl::OkStatus();
}

// --- experts ---

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
  const bool own_length = model_type == "qwen2_moe" || model_type == "qwen3_moe";
  OUTRIDER_ASSIGN_OR_RETURN(
      experts.feed_forward_length,
      config.Count(own_length ? "moe_intermediate_size" : "intermediate_size", kMaxWidth));
  if (model_type == "qwen2_moe") {
    OUTRIDER_ASSIGN_OR_RETURN(experts.shared_feed_forward_length,
                              config.Count("shared_expert_intermediate_size", kMaxWidth));
  }
  // Mixtral, Granite and gpt-oss always renormalise; the others have a key for it.
  const bool always =
      model_type == "mixtral" || model_type == "granitemoe" || model_type == "gpt_oss";
  OUTRIDER_ASSIGN_OR_RETURN(experts.renormalize, config.FlagOr("norm_topk_prob", always));
  return ReadExpertBlocks(config, model);
}

// --- what single families have ---

absl::StatusOr<float> ReadSoftCap(const Section& config, const char* key, float fallback) {
  if (config.IsNull(key)) return 0.0f;
  if (!config.Has(key)) return fallback;
  return config.Positive(key);
}

// The first Gemma's files said "gelu" and meant its tanh form.
absl::Status ReadGemma(const Section& config, Hyperparameters& model) {
  if (model.activation == Activation::kGeluErf) model.activation = Activation::kGeluTanh;
  OUTRIDER_ASSIGN_OR_RETURN(const bool sees_what_follows,
                            config.FlagOr("use_bidirectional_attention", false));
  if (sees_what_follows) {
    return config.Unsupported("use_bidirectional_attention",
                              ": every token sees those after it too");
  }
  if (model.architecture == Architecture::kGemma) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(
      model.attention_soft_cap,
      ReadSoftCap(config, "attn_logit_softcapping", CustomaryAttentionSoftCap(model.architecture)));
  OUTRIDER_ASSIGN_OR_RETURN(
      model.output_soft_cap,
      ReadSoftCap(config, "final_logit_softcapping", CustomaryOutputSoftCap(model.architecture)));
  OUTRIDER_ASSIGN_OR_RETURN(const float divisor, config.PositiveOr("query_pre_attn_scalar", 256));
  const float scale = InverseRoot(divisor);
  if (scale != InverseRoot(model.key_length)) model.attention_scale = scale;
  return absl::OkStatus();
}

absl::Status ReadGranite(const Section& config, Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(model.embedding_scale, config.PositiveOr("embedding_multiplier", 1));
  OUTRIDER_ASSIGN_OR_RETURN(model.residual_scale, config.PositiveOr("residual_multiplier", 1));
  OUTRIDER_ASSIGN_OR_RETURN(model.attention_scale, config.PositiveOr("attention_multiplier", 1));
  OUTRIDER_ASSIGN_OR_RETURN(model.output_divisor, config.PositiveOr("logits_scaling", 1));
  return absl::OkStatus();
}

// Which blocks turn: 1 for those that do.
absl::Status ReadSmolLm3(const Section& config, Hyperparameters& model) {
  const Json* const turned = config.Find("no_rope_layers");
  if (turned == nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const uint32_t step,
                              config.CountOr("no_rope_layer_interval", kMaxBlockCount, 4));
    model.unturned_blocks = AllButEvery(step, model.block_count);
    model.unturned_blocks.flip();
  } else {
    if (!turned->is_array() || turned->size() != model.block_count) {
      return config.Invalid("no_rope_layers", " must list ", model.block_count, " blocks");
    }
    model.unturned_blocks.clear();
    for (const Json& block : *turned) model.unturned_blocks.push_back(block != 1);
  }
  if (std::ranges::count(model.unturned_blocks, true) == 0) model.unturned_blocks.clear();
  return absl::OkStatus();
}

absl::Status ReadGptOss(const Section& config, Hyperparameters& model) {
  constexpr float kLimit = 7.0f;  // the kernels', both (kernels/NUMERICS.md)
  constexpr float kAlpha = 1.702f;
  OUTRIDER_ASSIGN_OR_RETURN(const float limit, config.PositiveOr("swiglu_limit", kLimit));
  if (limit != kLimit) {
    return config.Unsupported("swiglu_limit", " is ", limit, "; gates are clamped at ", kLimit);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const float alpha, config.PositiveOr("swiglu_alpha", kAlpha));
  if (alpha != kAlpha) {
    return config.Unsupported("swiglu_alpha", " is ", alpha, "; gates are steepened by ", kAlpha);
  }
  if (model.activation != Activation::kSilu) {
    return config.Unsupported("hidden_act", " of this family must be silu");
  }
  model.activation = Activation::kClampedSilu;
  // Without, transformers stretches the context of one model.
  const bool says_rope = config.Has("rope_parameters") || config.Has("rope_scaling");
  return says_rope ? absl::OkStatus() : config.Missing("rope_parameters");
}

// transformers counts in steps of the context that yarn stretches.
absl::Status ReadMinistral3(const Section& config, Hyperparameters& model) {
  const char* const key = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const Json* const rope = config.Find(key);
  if (rope == nullptr) return config.Missing("rope_parameters");  // its default is of one model
  const Section scaling(*rope, config.file(), Concat(key, "."));
  if (model.rope.scaling != RopeScaling::kYarn) {
    return scaling.Unsupported("rope_type", " of this family must be yarn");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const float scale, scaling.Positive("llama_4_scaling_beta"));
  model.query_growth = {.scale = scale, .step = model.rope.original_context_length};
  return absl::OkStatus();
}

absl::Status ReadStableLm(const Section& config, Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(model.norms_each_head, config.FlagOr("qk_layernorm", false));
  OUTRIDER_ASSIGN_OR_RETURN(model.parallel_blocks, config.FlagOr("use_parallel_residual", false));
  return absl::OkStatus();
}

absl::Status ReadFamily(const Section& config, const DecoderFamily& family,
                        Hyperparameters& model) {
  model.unturned_blocks = CustomaryUnturnedBlocks(model);
  model.embedding_scale = CustomaryEmbeddingScale(model);
  switch (family.architecture) {
    case Architecture::kGemma:
    case Architecture::kGemma2:
    case Architecture::kGemma3:
      return ReadGemma(config, model);
    case Architecture::kGranite:
    case Architecture::kGraniteMoe:
      return ReadGranite(config, model);
    case Architecture::kSmolLm3:
      return ReadSmolLm3(config, model);
    case Architecture::kStableLm:
      return ReadStableLm(config, model);
    case Architecture::kGptOss:
      return ReadGptOss(config, model);
    case Architecture::kMistral3:
      return ReadMinistral3(config, model);
    case Architecture::kCohere2: {
      OUTRIDER_ASSIGN_OR_RETURN(model.output_scale, config.PositiveOr("logit_scale", 0.0625f));
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

// --- all of them ---

// transformers' default.
float CustomaryRopeBase(std::string_view model_type) {
  if (model_type == "mixtral" || model_type == "gemma3_text") return 1e6f;
  if (model_type == "smollm3") return 2e6f;
  if (model_type == "gpt_oss") return 150000.0f;
  return 10000.0f;
}

absl::Status ReadHeads(const Section& config, const DecoderFamily& family, Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t heads,
                            config.Count("num_attention_heads", kMaxHeadCount));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t heads_kv,
                            family.needs_heads_kv
                                ? config.Count("num_key_value_heads", kMaxHeadCount)
                                : config.CountOr("num_key_value_heads", kMaxHeadCount, heads));
  FillHeads(model, heads, heads_kv);
  if (config.Has("head_dim")) {
    OUTRIDER_ASSIGN_OR_RETURN(model.key_length, config.Count("head_dim", kMaxHeadLength));
  } else if (family.architecture == Architecture::kQwen3 ||
             family.architecture == Architecture::kGptOss ||
             family.architecture == Architecture::kMistral3 || IsGemma(family.architecture)) {
    return config.Missing("head_dim");
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(model.key_length,
                              SharedHeadLength(config, "hidden_size", "num_attention_heads",
                                               model.embedding_length, heads));
  }
  model.value_length = model.key_length;
  return absl::OkStatus();
}

absl::StatusOr<Hyperparameters> ReadDecoderOf(const Section& config, const DecoderFamily& family) {
  Hyperparameters model = ArchitectureDefaults(family.architecture);
  OUTRIDER_ASSIGN_OR_RETURN(model.context_length,
                            config.Count("max_position_embeddings", kMaxContext));
  OUTRIDER_ASSIGN_OR_RETURN(model.embedding_length, config.Count("hidden_size", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.block_count, config.Count("num_hidden_layers", kMaxBlockCount));
  OUTRIDER_ASSIGN_OR_RETURN(model.feed_forward_length,
                            config.Count("intermediate_size", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.vocabulary_size, config.Count("vocab_size", kMaxVocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadHeads(config, family, model));

  const char* const epsilon = model.norm == NormKind::kRms ? "rms_norm_eps" : "layer_norm_eps";
  OUTRIDER_ASSIGN_OR_RETURN(model.norm_epsilon, config.PositiveOr(epsilon, family.norm_epsilon));
  const bool is_gemma = IsGemma(family.architecture);
  const bool own_key = is_gemma && config.Has("hidden_activation");
  OUTRIDER_RETURN_IF_ERROR(ReadActivation(config, own_key ? "hidden_activation" : "hidden_act",
                                          is_gemma ? "gelu_pytorch_tanh" : "silu", model));
  OUTRIDER_ASSIGN_OR_RETURN(model.tied_embeddings,
                            config.FlagOr("tie_word_embeddings", family.tied));
  const std::string_view model_type = family.model_type;
  model.rope.base = CustomaryRopeBase(model_type);
  OUTRIDER_RETURN_IF_ERROR(ReadSlidingWindow(config, family.windows, model));
  OUTRIDER_RETURN_IF_ERROR(ReadRope(config, family.part_turned, family.may_turn_part, model));
  OUTRIDER_RETURN_IF_ERROR(ReadFamily(config, family, model));
  if (config.Has("clip_qkv")) {
    return config.Unsupported("clip_qkv", " is set, and clipping is not supported");
  }
  if (model_type == "mixtral" || model_type == "qwen2_moe" || model_type == "qwen3_moe" ||
      model_type == "olmoe" || model_type == "granitemoe" || model_type == "gpt_oss") {
    OUTRIDER_RETURN_IF_ERROR(ReadExperts(config, model_type, model));
  }
  return model;
}

}  // namespace

absl::StatusOr<std::optional<Hyperparameters>> ReadDecoder(const Section& config,
                                                           std::string_view model_type) {
  for (const DecoderFamily& family : kFamilies) {
    if (model_type != family.model_type) continue;
    OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters model, ReadDecoderOf(config, family));
    return model;
  }
  return std::nullopt;
}

std::string DecoderTypes() {
  std::string types;
  for (const DecoderFamily& family : kFamilies) types += Concat(family.model_type, ", ");
  return types;
}

}  // namespace outrider
