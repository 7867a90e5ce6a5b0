#include "common/formats/models/hyperparameters_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/base/portable_math.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr std::array kRunnable = {
    Architecture::kLlama,    Architecture::kMistral3, Architecture::kQwen2,
    Architecture::kQwen2Moe, Architecture::kQwen3,    Architecture::kQwen3Moe,
    Architecture::kOlmo2,    Architecture::kOlmoe,    Architecture::kGemma,
    Architecture::kGemma2,   Architecture::kGemma3,   Architecture::kPhi3,
    Architecture::kSmolLm3,  Architecture::kGranite,  Architecture::kGraniteMoe,
    Architecture::kStableLm, Architecture::kCohere2,  Architecture::kExaone4,
    Architecture::kGptOss,   Architecture::kGpt2,
};

// Read and converted, and refused by whoever is to run them.
constexpr std::array kEncoderDecoders = {Architecture::kT5, Architecture::kBart,
                                         Architecture::kSwitch};

// What people run elsewhere and the part of it that is missing here, under GGUF's names and under
// those of Hugging Face where they are others.
struct Missing {
  std::string_view name;
  std::string_view part;
};
constexpr std::string_view kDeltaNet = "its gated delta net layers keep a recurrent state";
constexpr std::string_view kMamba = "its Mamba layers keep a recurrent state";
constexpr std::string_view kShortConvolution = "some of its layers are short convolutions";
constexpr std::string_view kPerLayerEmbeddings =
    "its layers have embeddings of their own and share keys and values";
constexpr std::string_view kNarrowAttention = "its attention goes through narrow matrices (MLA)";
constexpr std::string_view kEncoder = "it is an encoder, which reads a text and writes none";
constexpr std::string_view kImages = "it looks at images or hears sounds";
constexpr std::string_view kOtherNorms = "its encoder and decoder have their norms in other places";
constexpr std::string_view kReceptance = "its layers are recurrent (RWKV)";
constexpr auto kMissing = std::to_array<Missing>({
    {"qwen35", kDeltaNet},
    {"qwen35moe", kDeltaNet},
    {"qwen3next", kDeltaNet},
    {"qwen4exp", kDeltaNet},
    {"qwen3_5", kDeltaNet},
    {"qwen3_5_text", kDeltaNet},
    {"qwen3_5_moe", kDeltaNet},
    {"qwen3_next", kDeltaNet},
    {"kimi-linear", kDeltaNet},
    {"lfm2", kShortConvolution},
    {"lfm2moe", kShortConvolution},
    {"lfm2_moe", kShortConvolution},
    {"granitehybrid", kMamba},
    {"granitemoehybrid", kMamba},
    {"nemotron_h", kMamba},
    {"nemotron_h_moe", kMamba},
    {"falcon-h1", kMamba},
    {"falcon_h1", kMamba},
    {"jamba", kMamba},
    {"mamba", kMamba},
    {"mamba2", kMamba},
    {"bamba", kMamba},
    {"plamo2", kMamba},
    {"rwkv6", kReceptance},
    {"rwkv7", kReceptance},
    {"gemma3n", kPerLayerEmbeddings},
    {"gemma3n_text", kPerLayerEmbeddings},
    {"gemma4", kPerLayerEmbeddings},
    {"gemma4_text", kPerLayerEmbeddings},
    {"qwen2vl", kImages},
    {"qwen2_vl", kImages},
    {"qwen2_5_vl", kImages},
    {"qwen3vl", kImages},
    {"qwen3_vl", kImages},
    {"deepseek2", kNarrowAttention},
    {"deepseek_v2", kNarrowAttention},
    {"deepseek_v3", kNarrowAttention},
    {"minicpm3", kNarrowAttention},
    {"mistral4", kNarrowAttention},
    {"granitemoeshared", "every token goes to an expert without a gate as well"},
    {"phimoe", "its router chooses experts by a rule of its own (SparseMixer)"},
    {"umt5", "each of its layers has a relative bias of its own"},
    {"mbart", kOtherNorms},
    {"pegasus", kOtherNorms},
    {"marian", "its positions are sines that its files do not hold"},
    {"t5gemma", "its encoder and decoder are put together as Gemma's layers are"},
    {"bert", kEncoder},
    {"modern-bert", kEncoder},
    {"t5encoder", kEncoder},
    {"gemma-embedding", kEncoder},
    {"jina-bert-v2", kEncoder},
    {"nomic-bert", kEncoder},
    {"nomic-bert-moe", kEncoder},
});

absl::Status CheckHeads(const Hyperparameters& model, const HyperparameterKeys& keys,
                        const std::string& name) {
  OUTRIDER_CHECK(model.head_count.size() == model.total_block_count() &&
                     model.head_count_kv.size() == model.total_block_count(),
                 "readers fill in one head count per block");
  for (size_t block = 0; block < model.head_count.size(); ++block) {
    if (model.head_count[block] % model.head_count_kv[block] != 0) {
      return InvalidArgument(name, ": ", keys.head_count, " is ", model.head_count[block],
                             " in block ", block, ", no multiple of ", keys.head_count_kv, ", ",
                             model.head_count_kv[block]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRope(const Hyperparameters& model, const HyperparameterKeys& keys,
                       const std::string& name) {
  const Rope& rope = model.rope;
  if (rope.style == RopeStyle::kNone) return absl::OkStatus();
  if (rope.dimension_count % 2 != 0) {
    return InvalidArgument(name, ": ", keys.rope_dimension_count, " is ", rope.dimension_count,
                           ", but positions turn pairs of dimensions");
  }
  if (rope.dimension_count > model.key_length) {
    return InvalidArgument(name, ": ", keys.rope_dimension_count, " is ", rope.dimension_count,
                           ", more than a key's ", model.key_length);
  }
  if (rope.style == RopeStyle::kInterleaved && rope.dimension_count != model.key_length) {
    return InvalidArgument(name, ": ", keys.rope_dimension_count, " is ", rope.dimension_count,
                           ", but ", Name(model.architecture), " turns all ", model.key_length,
                           " dimensions of a key");
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const Hyperparameters& model, const HyperparameterKeys& keys,
                          const std::string& name) {
  if (model.experts.count == 0) return absl::OkStatus();
  if (model.experts.used_count > model.experts.count) {
    return InvalidArgument(name, ": ", keys.expert_used_count, " is ", model.experts.used_count,
                           ", more than ", keys.expert_count, ", ", model.experts.count);
  }
  OUTRIDER_CHECK(model.experts.blocks.size() == model.total_block_count(),
                 "readers say of every block whether it has experts");
  return absl::OkStatus();
}

}  // namespace

std::string_view MissingPart(std::string_view name) {
  const auto* const found = std::ranges::find(kMissing, name, &Missing::name);
  return found == kMissing.end() ? "" : found->part;
}

absl::StatusOr<Architecture> ArchitectureFromName(std::string_view name, const std::string& file) {
  std::string supported;
  for (const Architecture architecture : kRunnable) {
    if (Name(architecture) == name) return architecture;
    supported += Concat(supported.empty() ? "" : ", ", Name(architecture));
  }
  for (const Architecture architecture : kEncoderDecoders) {
    if (Name(architecture) == name) return architecture;
  }
  if (const std::string_view missing = MissingPart(name); !missing.empty()) {
    return Unimplemented(file, ": architecture \"", name, "\" cannot be run yet: ", missing);
  }
  return Unimplemented(file, ": architecture \"", name,
                       "\" is not supported; these are: ", supported);
}

Hyperparameters ArchitectureDefaults(Architecture architecture) {
  Hyperparameters model;
  model.architecture = architecture;
  switch (architecture) {
    case Architecture::kLlama:
    case Architecture::kMistral3:
      model.rope.style = RopeStyle::kInterleaved;
      model.experts.renormalize = true;  // Mixtral
      break;
    case Architecture::kQwen3Moe:
      model.experts.renormalize = true;
      [[fallthrough]];
    case Architecture::kQwen2:
    case Architecture::kQwen2Moe:
    case Architecture::kQwen3:
    case Architecture::kOlmo2:
    case Architecture::kOlmoe:
    case Architecture::kPhi3:
    case Architecture::kExaone4:
      model.rope.style = RopeStyle::kHalves;
      break;
    case Architecture::kGemma:
    case Architecture::kGemma2:
    case Architecture::kGemma3:
      model.rope.style = RopeStyle::kHalves;
      model.activation = Activation::kGeluTanh;
      break;
    case Architecture::kStableLm:
      model.rope.style = RopeStyle::kHalves;
      model.norm = NormKind::kLayer;
      break;
    case Architecture::kGptOss:
      model.rope.style = RopeStyle::kHalves;
      model.rope.yarn_whole_dimensions = false;
      model.activation = Activation::kClampedSilu;
      // A softmax over those that were chosen is that over all, divided by their sum.
      model.experts.renormalize = true;
      break;
    case Architecture::kSmolLm3:
    case Architecture::kGranite:
      model.rope.style = RopeStyle::kInterleaved;
      break;
    case Architecture::kGraniteMoe:
      model.rope.style = RopeStyle::kInterleaved;
      model.experts.renormalize = true;
      break;
    case Architecture::kCohere2:
      model.rope.style = RopeStyle::kInterleaved;
      model.norm = NormKind::kLayer;
      model.norm_biases = false;
      model.parallel_blocks = true;
      break;
    case Architecture::kGpt2:
      model.norm = NormKind::kLayer;
      model.activation = Activation::kGeluTanh;
      model.gated = false;
      break;
    case Architecture::kBart:
      model.norm = NormKind::kLayer;
      model.activation = Activation::kGeluErf;
      model.gated = false;
      break;
    case Architecture::kT5:  // the first T5; its successors are gated and say so
    case Architecture::kSwitch:
      model.activation = Activation::kRelu;
      model.gated = false;
      break;
  }
  return model;
}

bool IsGemma(Architecture architecture) {
  return architecture == Architecture::kGemma || architecture == Architecture::kGemma2 ||
         architecture == Architecture::kGemma3;
}

bool IsGranite(Architecture architecture) {
  return architecture == Architecture::kGranite || architecture == Architecture::kGraniteMoe;
}

uint32_t WindowStep(Architecture architecture) {
  switch (architecture) {
    case Architecture::kGemma2:
    case Architecture::kGptOss:
      return 2;
    case Architecture::kGemma3:
      return 6;
    case Architecture::kOlmo2:
    case Architecture::kCohere2:
    case Architecture::kExaone4:
      return 4;
    default:
      return 0;
  }
}

std::vector<bool> AllButEvery(uint32_t step, uint32_t block_count) {
  std::vector<bool> blocks;
  if (step == 0) return blocks;
  for (uint32_t block = 0; block < block_count; ++block) blocks.push_back((block + 1) % step != 0);
  return blocks;
}

void NormalizeWindows(Hyperparameters& model) {
  if (model.window_blocks.empty()) return;
  const auto count = std::ranges::count(model.window_blocks, true);
  if (count == 0) model.sliding_window.reset();
  const auto all = static_cast<ptrdiff_t>(model.window_blocks.size());
  if (count == 0 || count == all) model.window_blocks.clear();
}

std::vector<bool> CustomaryUnturnedBlocks(const Hyperparameters& model) {
  std::vector<bool> turned;
  if (model.architecture == Architecture::kSmolLm3) {
    constexpr uint32_t kStep = 4;
    turned = AllButEvery(kStep, model.block_count);
  } else if (model.sliding_window && (model.architecture == Architecture::kCohere2 ||
                                      model.architecture == Architecture::kExaone4)) {
    turned = model.window_blocks;  // those that see everything know no positions
  }
  turned.flip();
  return turned;
}

float CustomaryEmbeddingScale(const Hyperparameters& model) {
  return IsGemma(model.architecture)
             ? static_cast<float>(std::sqrt(static_cast<double>(model.embedding_length)))
             : 1.0f;
}

std::optional<float> CustomaryAttentionScale(const Hyperparameters& model) {
  // The 27B models.
  const bool shares_embedding =
      (model.architecture == Architecture::kGemma2 && model.block_count == 46) ||
      (model.architecture == Architecture::kGemma3 && model.block_count == 62);
  if (!shares_embedding) return std::nullopt;
  const uint32_t share = model.embedding_length / model.head_count[0];
  return InverseRoot(share);
}

float CustomaryAttentionSoftCap(Architecture architecture) {
  return architecture == Architecture::kGemma2 ? 50.0f : 0.0f;
}

float CustomaryOutputSoftCap(Architecture architecture) {
  return architecture == Architecture::kGemma2 ? 30.0f : 0.0f;
}

float InverseRoot(double number) {
  return static_cast<float>(1.0 / std::sqrt(number));
}

float LongRopeAttentionFactor(double factor, uint32_t original_context_length) {
  if (factor <= 1.0) return 1.0f;
  return static_cast<float>(
      std::sqrt(1.0 + portable::Log(factor) / portable::Log(1.0 * original_context_length)));
}

float YarnAttentionFactor(float factor) {
  return factor <= 1.0f ? 1.0f : static_cast<float>(0.1 * portable::Log(double{factor}) + 1.0);
}

float TiedT5OutputScale(uint32_t embedding_length) {
  return InverseRoot(embedding_length);
}

bool IsPositiveFloat(double number) {
  return number >= std::numeric_limits<float>::denorm_min() &&
         number <= std::numeric_limits<float>::max();
}

absl::Status CheckHyperparameters(const Hyperparameters& hyperparameters,
                                  const HyperparameterKeys& keys, const std::string& name) {
  OUTRIDER_RETURN_IF_ERROR(CheckHeads(hyperparameters, keys, name));
  OUTRIDER_RETURN_IF_ERROR(CheckRope(hyperparameters, keys, name));
  OUTRIDER_RETURN_IF_ERROR(CheckExperts(hyperparameters, keys, name));
  // Half the encoder's buckets are for keys behind the query, and half of those for exact
  // distances.
  if (hyperparameters.relative_buckets % 4 != 0) {
    return InvalidArgument(name, ": ", keys.relative_buckets, " is ",
                           hyperparameters.relative_buckets, ", no multiple of 4");
  }
  if (hyperparameters.relative_buckets > 0 &&
      hyperparameters.relative_max_distance <= hyperparameters.relative_buckets / 2) {
    return InvalidArgument(name, ": the largest relative distance, ",
                           hyperparameters.relative_max_distance, ", must exceed half of ",
                           keys.relative_buckets, ", ", hyperparameters.relative_buckets);
  }
  return absl::OkStatus();
}

}  // namespace outrider
