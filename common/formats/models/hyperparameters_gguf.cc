// The {arch}.* metadata of a GGUF file, read.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
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

// The keys of one architecture in one file.
class Section {
 public:
  Section(const GgufFile& gguf, std::string_view architecture, const std::string& file)
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
absl::StatusOr<uint32_t> ReadVocabularySize(const Section& section) {
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

absl::Status ReadAttention(const Section& section, Hyperparameters& model) {
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
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t window,
                            section.CountOr("attention.sliding_window", kMaxContext, 0, 0));
  if (window > 0) model.sliding_window = window;
  return absl::OkStatus();
}

// How much of each frequency is YaRN's: all of it in YaRN, none elsewhere.
absl::Status CheckYarnMix(const Section& section, RopeScaling scaling) {
  constexpr std::string_view kSuffix = "rope.scaling.yarn_ext_factor";
  if (!section.Has(kSuffix)) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const double mix, section.gguf().GetFloat(section.Key(kSuffix)));
  const double usual = scaling == RopeScaling::kYarn ? 1 : 0;
  if (mix == usual || mix < 0) return absl::OkStatus();  // below 0: what is usual
  return Unimplemented(section.file(), ": ", section.Key(kSuffix), " = ", mix,
                       " is not supported, only ", usual, " is");
}

absl::Status ReadRope(const Section& section, Hyperparameters& model) {
  Rope& rope = model.rope;
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
  if (section.gguf().FindTensor("rope_freqs.weight") != nullptr) {
    if (rope.scaling != RopeScaling::kNone) {
      return Unimplemented(section.file(), ": has rope_freqs.weight as well as ", type_key, " = ",
                           type);
    }
    rope.scaling = RopeScaling::kLlama3;
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      rope.original_context_length,
      section.CountOr("rope.scaling.original_context_length", kMaxContext, 0, 0));
  if (rope.scaling != RopeScaling::kYarn) return absl::OkStatus();

  if (rope.original_context_length == 0) rope.original_context_length = model.context_length;
  // llama.cpp multiplies this one with YaRN's own.
  OUTRIDER_ASSIGN_OR_RETURN(const float extra,
                            section.PositiveOr("rope.scaling.attn_factor", 1.0f));
  rope.attention_factor = extra * YarnAttentionFactor(rope.factor);
  OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_fast,
                            section.PositiveOr("rope.scaling.yarn_beta_fast", 32.0f));
  OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_slow,
                            section.PositiveOr("rope.scaling.yarn_beta_slow", 1.0f));
  return absl::OkStatus();
}

absl::Status ReadExpertBlocks(const Section& section, Hyperparameters& model) {
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

absl::Status ReadExperts(const Section& section, Hyperparameters& model) {
  Experts& experts = model.experts;
  const Architecture architecture = model.architecture;
  const bool must = architecture == Architecture::kQwen3Moe ||
                    architecture == Architecture::kOlmoe || architecture == Architecture::kSwitch;
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
  const uint32_t fallback = architecture == Architecture::kQwen3Moe
                                ? std::max(1u, model.feed_forward_length / experts.used_count)
                                : model.feed_forward_length;
  OUTRIDER_ASSIGN_OR_RETURN(experts.feed_forward_length,
                            section.CountOr("expert_feed_forward_length", kMaxWidth, fallback));
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
  if (gating != kSoftmaxGating) {
    return Unimplemented(section.file(), ": ", section.Key("expert_gating_func"), " = ", gating,
                         " is not supported, only softmax (1) is");
  }
  return ReadExpertBlocks(section, model);
}

absl::Status ReadActivation(const Section& section, Hyperparameters& model) {
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

absl::Status ReadEncoderDecoder(const Section& section, Hyperparameters& model) {
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
absl::Status ReadOutput(const Section& section, Hyperparameters& model) {
  model.tied_embeddings =
      !section.gguf().tensors().empty() && section.gguf().FindTensor("output.weight") == nullptr;
  if (model.architecture == Architecture::kT5 && model.tied_embeddings) {
    model.output_scale = TiedT5OutputScale(model.embedding_length);
  }
  OUTRIDER_ASSIGN_OR_RETURN(model.output_scale,
                            section.PositiveOr("logit_scale", model.output_scale));
  return absl::OkStatus();
}

bool HasDecoder(Architecture architecture) {
  return architecture == Architecture::kT5 || architecture == Architecture::kBart ||
         architecture == Architecture::kSwitch;
}

absl::StatusOr<Hyperparameters> Read(const Section& section, Architecture architecture) {
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
  OUTRIDER_RETURN_IF_ERROR(ReadRope(section, model));
  OUTRIDER_RETURN_IF_ERROR(ReadExperts(section, model));
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
  const Section section(file, architecture_name, name);
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
