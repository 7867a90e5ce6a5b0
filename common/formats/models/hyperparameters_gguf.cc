// The {arch}.* metadata of a GGUF file, read.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/hyperparameters_gguf_keys.h"
#include "common/formats/models/hyperparameters_gguf_names.h"
#include "common/formats/models/hyperparameters_rules.h"

namespace outrider {
namespace {

constexpr uint64_t kSoftmaxGating = 1;
constexpr uint64_t kSoftmaxOfChosenGating = 3;

// The keys of one architecture in one file.
class GgufSection {
 public:
  GgufSection(const GgufFile& gguf, std::string_view architecture, const std::string& file)
      : gguf_(gguf), prefix_(Concat(architecture, ".")), file_(file) {}

  const GgufFile& gguf() const { return gguf_; }
  const std::string& file() const { return file_; }
  std::string Key(std::string_view suffix) const { return Concat(prefix_, suffix); }
  bool Has(std::string_view suffix) const { return gguf_.Find(Key(suffix)) != nullptr; }

  absl::StatusOr<uint32_t> Count(std::string_view suffix, uint32_t max, uint32_t min = 1) const {
    OUTRIDER_ASSIGN_OR_RETURN(const uint64_t value, gguf_.GetUint(Key(suffix)));
    return InRange(suffix, value, min, max);
  }
  absl::StatusOr<uint32_t> CountOr(std::string_view suffix, uint32_t max, uint32_t fallback,
                                   uint32_t min = 1) const {
    if (!Has(suffix)) return fallback;
    return Count(suffix, max, min);
  }

  // One number for all blocks, or an array with one for each.
  absl::StatusOr<std::vector<uint32_t>> CountPerBlock(std::string_view suffix, uint32_t block_count,
                                                      uint32_t max) const {
    const GgufValue* value = gguf_.Find(Key(suffix));
    if (value == nullptr || value->type != GgufValueType::kArray) {
      OUTRIDER_ASSIGN_OR_RETURN(const uint32_t count, Count(suffix, max));
      return std::vector<uint32_t>(block_count, count);
    }
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint64_t> values, gguf_.GetUints(Key(suffix)));
    if (values.size() != block_count) {
      return InvalidArgument(file_, ": ", Key(suffix), " has ", values.size(),
                             " elements, the model ", block_count, " blocks");
    }
    std::vector<uint32_t> counts;
    for (const uint64_t element : values) {
      OUTRIDER_ASSIGN_OR_RETURN(const uint32_t count, InRange(suffix, element, 1, max));
      counts.push_back(count);
    }
    return counts;
  }

  absl::StatusOr<float> Positive(std::string_view suffix) const {
    OUTRIDER_ASSIGN_OR_RETURN(const double value, gguf_.GetFloat(Key(suffix)));
    if (!IsPositiveFloat(value)) {
      return InvalidArgument(file_, ": ", Key(suffix), " is ", value,
                             ", not a finite number above zero");
    }
    return static_cast<float>(value);
  }
  absl::StatusOr<float> PositiveOr(std::string_view suffix, float fallback) const {
    if (!Has(suffix)) return fallback;
    return Positive(suffix);
  }
  // Zero or above.
  absl::StatusOr<float> NumberOr(std::string_view suffix, float fallback) const {
    if (!Has(suffix)) return fallback;
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<float> positive, PositiveIfAny(suffix));
    return positive.value_or(0.0f);
  }
  // Where 0 says the same as no key.
  absl::StatusOr<std::optional<float>> PositiveIfAny(std::string_view suffix) const {
    if (!Has(suffix)) return std::nullopt;
    OUTRIDER_ASSIGN_OR_RETURN(const double value, gguf_.GetFloat(Key(suffix)));
    if (value == 0) return std::nullopt;
    OUTRIDER_ASSIGN_OR_RETURN(const float positive, Positive(suffix));
    return positive;
  }

 private:
  absl::StatusOr<uint32_t> InRange(std::string_view suffix, uint64_t value, uint32_t min,
                                   uint32_t max) const {
    if (value >= min && value <= max) return static_cast<uint32_t>(value);
    return InvalidArgument(file_, ": ", Key(suffix), " is ", value, ", expected ", min, " to ",
                           max);
  }

  const GgufFile& gguf_;
  std::string prefix_;
  const std::string& file_;
};

// The matrix's, else what the key says, else one for each token of the tokenizer.
absl::StatusOr<uint32_t> ReadVocabularySize(const GgufSection& section) {
  const GgufTensor* embedding = section.gguf().FindTensor("token_embd.weight");
  if (embedding != nullptr && embedding->dims.size() == 2 && embedding->dims[1] <= kMaxVocabulary) {
    return static_cast<uint32_t>(embedding->dims[1]);
  }
  if (section.Has("vocab_size")) return section.Count("vocab_size", kMaxVocabulary);
  const GgufValue* tokens = section.gguf().Find("tokenizer.ggml.tokens");
  const GgufArray* array = tokens == nullptr ? nullptr : std::get_if<GgufArray>(&tokens->data);
  if (array == nullptr) return section.Count("vocab_size", kMaxVocabulary);  // NotFound
  if (array->count == 0 || array->count > kMaxVocabulary) {
    return InvalidArgument(section.file(), ": tokenizer.ggml.tokens has ", array->count,
                           " elements, expected 1 to ", kMaxVocabulary);
  }
  return static_cast<uint32_t>(array->count);
}

absl::Status ReadAttention(const GgufSection& section, Hyperparameters& model) {
  OUTRIDER_ASSIGN_OR_RETURN(
      model.head_count,
      section.CountPerBlock("attention.head_count", model.total_block_count(), kMaxHeadCount));
  model.head_count_kv = model.head_count;
  if (section.Has("attention.head_count_kv")) {
    OUTRIDER_ASSIGN_OR_RETURN(
        model.head_count_kv,
        section.CountPerBlock("attention.head_count_kv", model.total_block_count(), kMaxHeadCount));
  }
  if (!section.Has("attention.key_length") && model.embedding_length % model.head_count[0] != 0) {
    return InvalidArgument(section.file(), ": ", section.Key("embedding_length"), " is ",
                           model.embedding_length, ", no multiple of ",
                           section.Key("attention.head_count"), ", ", model.head_count[0]);
  }
  const uint32_t shared = std::max(1u, model.embedding_length / model.head_count[0]);
  OUTRIDER_ASSIGN_OR_RETURN(model.key_length,
                            section.CountOr("attention.key_length", kMaxHeadLength, shared));
  OUTRIDER_ASSIGN_OR_RETURN(model.value_length, section.CountOr("attention.value_length",
                                                                kMaxHeadLength, model.key_length));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<float> scale,
                            section.PositiveIfAny("attention.scale"));
  model.attention_scale = scale ? scale : CustomaryAttentionScale(model);
  OUTRIDER_ASSIGN_OR_RETURN(
      model.attention_soft_cap,
      section.NumberOr("attn_logit_softcapping", CustomaryAttentionSoftCap(model.architecture)));
  return absl::OkStatus();
}

// A number n, and every n-th block sees everything, or a flag for every block that has the window.
absl::Status ReadWindows(const GgufSection& section, Hyperparameters& model) {
  // Gemma 2's files did not always say it.
  const uint32_t customary = model.architecture == Architecture::kGemma2 ? 4096 : 0;
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t window,
                            section.CountOr("attention.sliding_window", kMaxContext, customary, 0));
  if (window == 0) return absl::OkStatus();
  model.sliding_window = window;
  const uint32_t step = WindowStep(model.architecture);
  if (step == 0) return absl::OkStatus();
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const std::string key = section.Key(kPattern);
  const GgufValue* const pattern = section.gguf().Find(key);
  if (pattern != nullptr && pattern->type == GgufValueType::kArray) {
    OUTRIDER_ASSIGN_OR_RETURN(model.window_blocks, section.gguf().GetFlags(key));
    if (model.window_blocks.size() != model.block_count) {
      return InvalidArgument(section.file(), ": ", key, " has ", model.window_blocks.size(),
                             " elements, the model ", model.block_count, " blocks");
    }
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(const uint32_t n, section.CountOr(kPattern, kMaxBlockCount, step, 0));
    model.window_blocks = AllButEvery(n, model.block_count);
  }
  NormalizeWindows(model);
  return absl::OkStatus();
}

// Blocks with a window turn by the same base as the others or by their own, and where the others'
// context was stretched, theirs was not.
absl::Status ReadWindowRope(const GgufSection& section, Hyperparameters& model) {
  if (!model.sliding_window || WindowStep(model.architecture) == 0) return absl::OkStatus();
  const bool is_gemma3 = model.architecture == Architecture::kGemma3;
  OUTRIDER_ASSIGN_OR_RETURN(
      const float base,
      section.PositiveOr("rope.freq_base_swa", is_gemma3 ? kGemma3WindowBase : model.rope.base));
  Rope rope = model.rope;
  if (is_gemma3 || model.architecture == Architecture::kOlmo2) {
    rope = {.style = model.rope.style, .dimension_count = model.rope.dimension_count};
  }
  rope.base = base;
  if (rope != model.rope) model.window_rope = rope;
  return absl::OkStatus();
}

absl::Status ReadUnturnedBlocks(const GgufSection& section, Hyperparameters& model) {
  model.unturned_blocks = CustomaryUnturnedBlocks(model);
  constexpr std::string_view kSuffix = "rope.unturned_layers";
  if (!section.Has(kSuffix)) return absl::OkStatus();
  const std::string key = section.Key(kSuffix);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint64_t> blocks, section.gguf().GetUints(key));
  model.unturned_blocks.clear();
  if (!blocks.empty()) model.unturned_blocks.assign(model.block_count, false);
  for (const uint64_t block : blocks) {
    if (block >= model.block_count) {
      return InvalidArgument(section.file(), ": ", key, " names block ", block, " of ",
                             model.block_count);
    }
    model.unturned_blocks[block] = true;
  }
  return absl::OkStatus();
}

// How much of each frequency is YaRN's: all of it in YaRN, none elsewhere.
absl::Status CheckYarnMix(const GgufSection& section, RopeScaling scaling) {
  constexpr std::string_view kSuffix = "rope.scaling.yarn_ext_factor";
  if (!section.Has(kSuffix)) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const double mix, section.gguf().GetFloat(section.Key(kSuffix)));
  const double usual = scaling == RopeScaling::kYarn ? 1 : 0;
  if (mix == usual || mix < 0) return absl::OkStatus();  // below 0: what is usual
  return Unimplemented(section.file(), ": ", section.Key(kSuffix), " = ", mix,
                       " is not supported, only ", usual, " is");
}

// Whether cosines and sines keep their length though yarn stretches them: Ministral 3's do where it
// is 1. Of its other values llama.cpp makes something else than who trained with them.
absl::StatusOr<bool> KeepsLength(const GgufSection& section, Architecture architecture) {
  constexpr std::string_view kSuffix = "rope.scaling.yarn_log_multiplier";
  if (architecture != Architecture::kMistral3) return false;
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<float> multiplier, section.PositiveIfAny(kSuffix));
  if (!multiplier || *multiplier == 1.0f) return multiplier.has_value();
  return Unimplemented(section.file(), ": ", section.Key(kSuffix), " = ", *multiplier,
                       " is not supported, only 0 and 1 are");
}

// Divisors that are tensors, of which files say nothing else.
absl::Status ReadRopeTensors(const GgufSection& section, std::string_view type, Rope& rope) {
  for (const auto& [tensor, scaling] :
       {std::pair{"rope_freqs.weight", RopeScaling::kLlama3},
        std::pair{"rope_factors_long.weight", RopeScaling::kLongRope}}) {
    if (section.gguf().FindTensor(tensor) == nullptr || rope.scaling == scaling) continue;
    if (rope.scaling != RopeScaling::kNone) {
      return Unimplemented(section.file(), ": has ", tensor, " as well as ",
                           section.Key("rope.scaling.type"), " = ", type);
    }
    rope.scaling = scaling;
  }
  return absl::OkStatus();
}

// Two factors that are used of some scalings alone. llama.cpp multiplies by them whatever the scaling
// is, so elsewhere they have to be 1.
absl::Status CheckRopeFactors(const GgufSection& section, const Rope& rope) {
  const bool is_long = rope.scaling == RopeScaling::kLongRope;
  const bool has_length = rope.scaling == RopeScaling::kYarn || is_long;
  constexpr std::string_view kLength = "rope.scaling.attn_factor";
  OUTRIDER_ASSIGN_OR_RETURN(const float length, section.PositiveOr(kLength, 1.0f));
  if (length != 1.0f && !has_length) {
    return Unimplemented(section.file(), ": ", section.Key(kLength), " = ", length,
                         " is not supported but with yarn and longrope scaling");
  }
  if (rope.factor != 1.0f && is_long) {
    return Unimplemented(section.file(), ": ", section.Key("rope.scaling.factor"), " = ",
                         rope.factor,
                         " is not supported with longrope scaling, whose divisors have the factor");
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const GgufSection& section, Hyperparameters& model) {
  Rope& rope = model.rope;
  if (IsGranite(model.architecture) && section.Has("rope.scaling.finetuned")) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool turns,
                              section.gguf().GetBool(section.Key("rope.scaling.finetuned")));
    if (!turns) rope.style = RopeStyle::kNone;
  }
  if (rope.style == RopeStyle::kNone) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(
      rope.dimension_count,
      section.CountOr("rope.dimension_count", kMaxHeadLength, model.key_length));
  OUTRIDER_ASSIGN_OR_RETURN(rope.base, section.PositiveOr("rope.freq_base", 10000.0f));
  // Files from before 2023-11 give a factor alone.
  OUTRIDER_ASSIGN_OR_RETURN(const float old_factor, section.PositiveOr("rope.scale_linear", 1.0f));
  OUTRIDER_ASSIGN_OR_RETURN(rope.factor, section.PositiveOr("rope.scaling.factor", old_factor));
  std::string_view type = rope.factor == 1.0f ? "none" : "linear";
  const std::string type_key = section.Key("rope.scaling.type");
  if (section.Has("rope.scaling.type")) {
    OUTRIDER_ASSIGN_OR_RETURN(type, section.gguf().GetString(type_key));
  }
  const auto* const found =
      std::ranges::find_if(kScalingNames, [&](const auto& entry) { return entry.second == type; });
  if (found == kScalingNames.end()) {
    return Unimplemented(section.file(), ": ", type_key, " is \"", type,
                         "\"; supported are none, linear, yarn and longrope");
  }
  rope.scaling = found->first;
  OUTRIDER_RETURN_IF_ERROR(CheckYarnMix(section, rope.scaling));
  if (rope.scaling == RopeScaling::kNone) rope.factor = 1.0f;
  OUTRIDER_RETURN_IF_ERROR(ReadRopeTensors(section, type, rope));
  OUTRIDER_RETURN_IF_ERROR(CheckRopeFactors(section, rope));
  OUTRIDER_ASSIGN_OR_RETURN(
      rope.original_context_length,
      section.CountOr("rope.scaling.original_context_length", kMaxContext, 0, 0));
  if (rope.scaling == RopeScaling::kLongRope) {
    if (rope.original_context_length == 0) {
      return NotFound(section.file(), ": has no ",
                      section.Key("rope.scaling.original_context_length"),
                      ", which longrope scaling needs");
    }
    OUTRIDER_ASSIGN_OR_RETURN(rope.attention_factor,
                              section.PositiveOr("rope.scaling.attn_factor", 1.0f));
  }
  if (rope.scaling != RopeScaling::kYarn) return absl::OkStatus();

  if (rope.original_context_length == 0) rope.original_context_length = model.context_length;
  // llama.cpp multiplies this one with YaRN's own.
  OUTRIDER_ASSIGN_OR_RETURN(const float extra,
                            section.PositiveOr("rope.scaling.attn_factor", 1.0f));
  OUTRIDER_ASSIGN_OR_RETURN(const bool keeps_length, KeepsLength(section, model.architecture));
  rope.attention_factor = keeps_length ? extra : extra * YarnAttentionFactor(rope.factor);
  OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_fast,
                            section.PositiveOr("rope.scaling.yarn_beta_fast", 32.0f));
  OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_slow,
                            section.PositiveOr("rope.scaling.yarn_beta_slow", 1.0f));
  return absl::OkStatus();
}

// In steps of the context that was there before it was stretched.
absl::Status ReadQueryGrowth(const GgufSection& section, Hyperparameters& model) {
  if (model.architecture != Architecture::kMistral3) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<float> scale,
                            section.PositiveIfAny("attention.temperature_scale"));
  if (!scale) return absl::OkStatus();
  const uint32_t original = model.rope.original_context_length;
  model.query_growth = {.scale = *scale, .step = original > 0 ? original : model.context_length};
  return absl::OkStatus();
}

absl::Status ReadExpertBlocks(const GgufSection& section, Hyperparameters& model) {
  model.experts.blocks.assign(model.total_block_count(), true);
  if (!section.Has("expert_layers")) return absl::OkStatus();
  const std::string key = section.Key("expert_layers");
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint64_t> blocks, section.gguf().GetUints(key));
  model.experts.blocks.assign(model.total_block_count(), false);
  for (const uint64_t block : blocks) {
    if (block >= model.total_block_count()) {
      return InvalidArgument(section.file(), ": ", key, " names block ", block, " of ",
                             model.total_block_count());
    }
    model.experts.blocks[block] = true;
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(const GgufSection& section, Hyperparameters& model) {
  Experts& experts = model.experts;
  const Architecture architecture = model.architecture;
  const bool must =
      architecture == Architecture::kQwen2Moe || architecture == Architecture::kQwen3Moe ||
      architecture == Architecture::kOlmoe || architecture == Architecture::kGraniteMoe ||
      architecture == Architecture::kGptOss || architecture == Architecture::kSwitch;
  if (must) {
    OUTRIDER_ASSIGN_OR_RETURN(experts.count, section.Count("expert_count", kMaxExpertCount));
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(experts.count,
                              section.CountOr("expert_count", kMaxExpertCount, 0, 0));
  }
  if (experts.count == 0) {
    experts = Experts{};
    return absl::OkStatus();
  }
  OUTRIDER_ASSIGN_OR_RETURN(experts.used_count,
                            section.Count("expert_used_count", kMaxExpertCount));
  // Qwen's dense length is that of all used experts together.
  const bool is_qwen =
      architecture == Architecture::kQwen2Moe || architecture == Architecture::kQwen3Moe;
  const uint32_t fallback = is_qwen ? std::max(1u, model.feed_forward_length / experts.used_count)
                                    : model.feed_forward_length;
  OUTRIDER_ASSIGN_OR_RETURN(experts.feed_forward_length,
                            section.CountOr("expert_feed_forward_length", kMaxWidth, fallback));
  if (architecture == Architecture::kQwen2Moe) {
    OUTRIDER_ASSIGN_OR_RETURN(
        experts.shared_feed_forward_length,
        section.CountOr("expert_shared_feed_forward_length", kMaxWidth, model.feed_forward_length));
  }
  if (section.Has("expert_weights_norm")) {
    OUTRIDER_ASSIGN_OR_RETURN(experts.renormalize,
                              section.gguf().GetBool(section.Key("expert_weights_norm")));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const float scale, section.PositiveOr("expert_weights_scale", 1.0f));
  if (scale != 1.0f) {
    return Unimplemented(section.file(), ": ", section.Key("expert_weights_scale"), " = ", scale,
                         " is not supported");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t gating,
                            section.CountOr("expert_gating_func", kMaxExpertCount, kSoftmaxGating));
  const bool of_the_chosen =
      gating == kSoftmaxOfChosenGating && architecture == Architecture::kGptOss;
  if (gating != kSoftmaxGating && !of_the_chosen) {
    return Unimplemented(section.file(), ": ", section.Key("expert_gating_func"), " = ", gating,
                         " is not supported, only softmax (1) is");
  }
  return ReadExpertBlocks(section, model);
}

absl::Status ReadActivation(const GgufSection& section, Hyperparameters& model) {
  if (model.architecture == Architecture::kT5 &&
      section.gguf().FindTensor("dec.blk.0.ffn_gate.weight") != nullptr) {
    model.gated = true;
    model.activation = Activation::kGeluTanh;
  }
  if (!section.Has("hidden_activation")) return absl::OkStatus();
  const std::string key = section.Key("hidden_activation");
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view name, section.gguf().GetString(key));
  for (const auto& [activation, known] : kActivationNames) {
    if (name != known) continue;
    model.activation = activation;
    return absl::OkStatus();
  }
  return Unimplemented(section.file(), ": ", key, " \"", name, "\" is not supported");
}

absl::Status ReadEncoderDecoder(const GgufSection& section, Hyperparameters& model) {
  if (model.architecture != Architecture::kBart) {
    OUTRIDER_ASSIGN_OR_RETURN(
        model.relative_buckets,
        section.Count("attention.relative_buckets_count", kMaxRelativeBuckets));
    OUTRIDER_ASSIGN_OR_RETURN(
        model.relative_max_distance,
        section.CountOr("attention.relative_max_distance", kMaxContext, kT5RelativeMaxDistance));
  }
  OUTRIDER_ASSIGN_OR_RETURN(model.decoder_start_token,
                            section.Count("decoder_start_token_id", kMaxVocabulary, 0));
  model.scale_embeddings = section.Has("embedding_scale");
  return absl::OkStatus();
}

// T5 scales the decoder's output exactly when it shares its embeddings with it. (llama.cpp does
// not: the most probable token is the same, the probabilities are not.)
absl::Status ReadOutput(const GgufSection& section, Hyperparameters& model) {
  model.tied_embeddings =
      !section.gguf().tensors().empty() && section.gguf().FindTensor("output.weight") == nullptr;
  if (model.architecture == Architecture::kT5 && model.tied_embeddings) {
    model.output_scale = TiedT5OutputScale(model.embedding_length);
  }
  // Granite's is a divisor.
  float& scale = IsGranite(model.architecture) ? model.output_divisor : model.output_scale;
  OUTRIDER_ASSIGN_OR_RETURN(scale, section.PositiveOr("logit_scale", scale));
  OUTRIDER_ASSIGN_OR_RETURN(
      model.output_soft_cap,
      section.NumberOr("final_logit_softcapping", CustomaryOutputSoftCap(model.architecture)));
  return absl::OkStatus();
}

absl::Status ReadScales(const GgufSection& section, Hyperparameters& model) {
  model.embedding_scale = CustomaryEmbeddingScale(model);
  if (!IsGranite(model.architecture)) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<float> embedding,
                            section.PositiveIfAny("embedding_scale"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<float> residual,
                            section.PositiveIfAny("residual_scale"));
  model.embedding_scale = embedding.value_or(1.0f);
  model.residual_scale = residual.value_or(1.0f);
  return absl::OkStatus();
}

// Which norms the blocks of a StableLM have its files tell by their tensors: whether attention and
// feed-forward part share one (the key use_parallel_residual was often written wrong), and whether
// queries and keys have any.
void ReadArrangement(const GgufSection& section, Hyperparameters& model) {
  const GgufFile& gguf = section.gguf();
  if (model.architecture != Architecture::kStableLm || gguf.tensors().empty()) return;
  model.parallel_blocks = gguf.FindTensor("blk.0.ffn_norm.weight") == nullptr;
  model.norms_each_head = gguf.FindTensor("blk.0.attn_q_norm.weight") != nullptr;
}

bool HasDecoder(Architecture architecture) {
  return architecture == Architecture::kT5 || architecture == Architecture::kBart ||
         architecture == Architecture::kSwitch;
}

absl::StatusOr<Hyperparameters> Read(const GgufSection& section, Architecture architecture) {
  Hyperparameters model = ArchitectureDefaults(architecture);
  OUTRIDER_ASSIGN_OR_RETURN(model.context_length, section.Count("context_length", kMaxContext));
  OUTRIDER_ASSIGN_OR_RETURN(model.embedding_length, section.Count("embedding_length", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.block_count, section.Count("block_count", kMaxBlockCount));
  if (HasDecoder(architecture)) {
    OUTRIDER_ASSIGN_OR_RETURN(
        model.decoder_block_count,
        section.CountOr("decoder_block_count", kMaxBlockCount, model.block_count));
  }
  OUTRIDER_ASSIGN_OR_RETURN(model.feed_forward_length,
                            section.Count("feed_forward_length", kMaxWidth));
  OUTRIDER_ASSIGN_OR_RETURN(model.vocabulary_size, ReadVocabularySize(section));
  OUTRIDER_ASSIGN_OR_RETURN(model.norm_epsilon, section.Positive(NormEpsilonKey(model)));
  OUTRIDER_RETURN_IF_ERROR(ReadAttention(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadWindows(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadRope(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadWindowRope(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadQueryGrowth(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadUnturnedBlocks(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadExperts(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadScales(section, model));
  ReadArrangement(section, model);
  OUTRIDER_RETURN_IF_ERROR(ReadActivation(section, model));
  if (HasDecoder(architecture)) OUTRIDER_RETURN_IF_ERROR(ReadEncoderDecoder(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadOutput(section, model));
  return model;
}

}  // namespace

absl::StatusOr<Hyperparameters> HyperparametersFromGguf(const GgufFile& file,
                                                        const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view architecture_name,
                            file.GetString("general.architecture"));
  OUTRIDER_ASSIGN_OR_RETURN(const Architecture architecture,
                            ArchitectureFromName(architecture_name, name));
  const GgufSection section(file, architecture_name, name);
  OUTRIDER_RETURN_IF_ERROR(CheckGgufKeys(file, architecture, name));
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters model, Read(section, architecture));
  OUTRIDER_RETURN_IF_ERROR(
      CheckHyperparameters(model,
                           {.head_count = section.Key("attention.head_count"),
                            .head_count_kv = section.Key("attention.head_count_kv"),
                            .rope_dimension_count = section.Key("rope.dimension_count"),
                            .expert_count = section.Key("expert_count"),
                            .expert_used_count = section.Key("expert_used_count"),
                            .relative_buckets = section.Key("attention.relative_buckets_count")},
                           name));
  model.name = std::filesystem::path(name).stem().string();
  if (file.Find("general.name") != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view general_name, file.GetString("general.name"));
    model.name = general_name;
  }
  return model;
}

}  // namespace outrider
