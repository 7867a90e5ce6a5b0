#include "tests/model/random_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/convert.h"
#include "common/formats/models/hyperparameters_rules.h"
#include "common/formats/models/tensor_layout.h"
#include "common/formats/tensors/half.h"

namespace outrider {
namespace {

using Random = std::mt19937_64;

// Between -1 and 1: integer arithmetic and one exact scaling, so the same everywhere.
float Uniform(Random& random) {
  return static_cast<float>(static_cast<int32_t>(random() >> 40) - (1 << 23)) * 0x1p-23f;
}

template <typename T>
void Put(std::span<std::byte> bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

// Random bits make good quants, and the block's scales in 16 bits decide how large they are: about
// as large as the weights of a trained model.
struct ScaleAt {
  size_t at;
  float scale;
};

std::vector<ScaleAt> ScalesOf(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
      return {{0, 0.0008f}};
    case TensorType::kQ4_0:
      return {{0, 0.012f}};
    case TensorType::kQ4_1:
      return {{0, 0.012f}, {2, -0.09f}};
    case TensorType::kQ5_0:
      return {{0, 0.006f}};
    case TensorType::kQ5_1:
      return {{0, 0.006f}, {2, -0.09f}};
    case TensorType::kIQ4_NL:
      return {{0, 0.0009f}};
    case TensorType::kIQ4_XS:
      return {{0, 0.00003f}};
    case TensorType::kQ2_K:
      return {{80, 0.0025f}, {82, 0.004f}};
    case TensorType::kQ3_K:
      return {{108, 0.0009f}};
    case TensorType::kMXFP4:
    case TensorType::kIQ1_M:
      return {};  // below
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
      return {{0, 0.0008f}};
    case TensorType::kIQ3_XXS:
      return {{0, 0.0004f}};
    case TensorType::kIQ3_S:
      return {{0, 0.0005f}};
    case TensorType::kIQ1_S:
      return {{0, 0.008f}};
    case TensorType::kTQ1_0:
      return {{52, 0.07f}};
    case TensorType::kTQ2_0:
      return {{64, 0.07f}};
    case TensorType::kQ4_K:
      return {{0, 0.0003f}, {2, 0.00225f}};
    case TensorType::kQ5_K:
      return {{0, 0.00015f}, {2, 0.00225f}};
    case TensorType::kQ6_K:
      return {{208, 0.00004f}};  // not a normal half: those must be honoured too
    default:
      OUTRIDER_CHECK(false, "a type the tests use");
  }
}

// A half in four parts: on top of each of the last four words.
void PutScaleOfIQ1_M(float scale, std::span<std::byte> block) {
  const uint16_t half = FloatToHalf(scale);
  for (size_t i = 0; i < 4; ++i) {
    std::byte& top = block[48 + 2 * i + 1];
    top = (top & std::byte{0x0f}) | static_cast<std::byte>((half >> 4 * i & 15) << 4);
  }
}

void FillMatrix(TensorType type, Random& random, std::span<std::byte> bytes) {
  if (type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16) {
    const size_t size = type == TensorType::kF32 ? 4 : 2;
    for (size_t at = 0; at < bytes.size(); at += size) {
      const float weight = 0.12f * Uniform(random);
      if (type == TensorType::kF32) Put(bytes, at, weight);
      if (type == TensorType::kF16) Put(bytes, at, FloatToHalf(weight));
      if (type == TensorType::kBF16) Put(bytes, at, FloatToBfloat16(weight));
    }
    return;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 56);
  const std::vector<ScaleAt> scales = ScalesOf(type);
  for (size_t block = 0; block < bytes.size(); block += Info(type).block_bytes) {
    for (const ScaleAt& scale : scales) {
      const float value = scale.scale * (1.0f + 0.5f * Uniform(random));
      Put(bytes, block + scale.at, FloatToHalf(value));
    }
    constexpr uint8_t kExponent = 120;  // 2^-8 for quants up to 12
    if (type == TensorType::kMXFP4) Put(bytes, block, kExponent);
    if (type == TensorType::kIQ1_M) PutScaleOfIQ1_M(0.008f, bytes.subspan(block, 56));
  }
}

// Norms about 1, rope's divisors from 1 up, biases and tables about 0.
void FillFloats(const std::string& name, Random& random, std::span<std::byte> bytes) {
  const bool is_bias = name.ends_with(".bias") || name.starts_with("position_embd");
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    const float noise = Uniform(random);
    const float value = name.starts_with("rope_f") ? 1.5f + 0.5f * noise
                        : is_bias                  ? 0.2f * noise
                                                   : 1.0f + 0.3f * noise;
    Put(bytes, at, value);
  }
}

void AddExperts(uint32_t count, uint32_t used_count, bool renormalize, Hyperparameters& model) {
  model.experts = {.count = count,
                   .used_count = used_count,
                   .feed_forward_length = 256,
                   .renormalize = renormalize,
                   .blocks = std::vector<bool>(model.block_count, true)};
}

// Every `step`-th layer, of which there are as many, sees everything.
void AddMixedWindows(uint32_t step, Hyperparameters& model) {
  model.block_count = step;
  model.sliding_window = 24;
  model.window_blocks = AllButEvery(step, step);
}

}  // namespace

Hyperparameters SmallModel(const std::string& family) {
  Hyperparameters model;
  model.name = family;
  model.context_length = 160;
  model.embedding_length = 256;
  model.feed_forward_length = 512;
  model.block_count = 2;
  model.vocabulary_size = 200;
  model.key_length = model.value_length = 64;
  uint32_t kv_heads = 2;
  model.rope = {.style = RopeStyle::kHalves, .dimension_count = 64};
  if (family == "llama" || family == "mistral") {
    model.architecture = Architecture::kLlama;
    model.rope.style = RopeStyle::kInterleaved;
    if (family == "llama") model.rope.scaling = RopeScaling::kLlama3;
    if (family == "mistral") model.sliding_window = 24;
  } else if (family == "ministral3") {
    model.architecture = Architecture::kMistral3;
    model.rope.style = RopeStyle::kInterleaved;
    model.rope.scaling = RopeScaling::kYarn;
    model.rope.factor = 4.0f;
    model.rope.original_context_length = 20;
    model.query_growth = {.scale = 0.4f, .step = 20};
  } else if (family == "qwen2") {
    model.architecture = Architecture::kQwen2;
    model.rope.scaling = RopeScaling::kYarn;
    model.rope.factor = 2.5f;
    model.rope.original_context_length = 64;
    model.rope.attention_factor = 1.125f;
  } else if (family == "qwen3") {
    model.architecture = Architecture::kQwen3;
    model.tied_embeddings = true;
    kv_heads = 1;
  } else if (family == "mixtral") {
    model.architecture = Architecture::kLlama;
    model.rope.style = RopeStyle::kInterleaved;
    AddExperts(5, 2, true, model);
    model.feed_forward_length = model.experts.feed_forward_length;
  } else if (family == "qwen3moe") {
    model.architecture = Architecture::kQwen3Moe;
    AddExperts(12, 4, true, model);
  } else if (family == "olmoe") {
    model.architecture = Architecture::kOlmoe;
    AddExperts(20, 8, false, model);
  } else if (family == "gemma") {
    model.architecture = Architecture::kGemma;
    model.tied_embeddings = true;
    kv_heads = 1;
  } else if (family == "gemma2") {
    model.architecture = Architecture::kGemma2;
    model.tied_embeddings = true;
    AddMixedWindows(2, model);
    model.attention_scale = 0.11f;
    model.attention_soft_cap = 2.5f;
    model.output_soft_cap = 4.0f;
  } else if (family == "gemma3") {
    model.architecture = Architecture::kGemma3;
    model.tied_embeddings = true;
    AddMixedWindows(3, model);
    model.window_rope = model.rope;
    model.rope.base = 1e6f;
    model.rope.scaling = RopeScaling::kLinear;
    model.rope.factor = 8.0f;
  } else if (family == "phi3") {
    model.architecture = Architecture::kPhi3;
    model.rope.dimension_count = 48;
    model.rope.scaling = RopeScaling::kLongRope;
    model.rope.original_context_length = 64;
    model.rope.attention_factor = 1.125f;
  } else if (family == "smollm3") {
    model.architecture = Architecture::kSmolLm3;
    model.rope.style = RopeStyle::kInterleaved;
    model.tied_embeddings = true;
    model.block_count = 4;
    model.unturned_blocks = CustomaryUnturnedBlocks(model);
  } else if (family == "granite" || family == "granitemoe") {
    model.architecture = Architecture::kGranite;
    if (family == "granitemoe") {
      model.architecture = Architecture::kGraniteMoe;
      AddExperts(12, 4, true, model);
      model.feed_forward_length = model.experts.feed_forward_length;
    }
    model.rope.style = RopeStyle::kInterleaved;
    model.tied_embeddings = true;
    model.embedding_scale = 6.0f;
    model.residual_scale = 0.22f;
    model.attention_scale = 0.07f;
    model.output_divisor = 3.0f;
  } else if (family == "olmo2") {
    model.architecture = Architecture::kOlmo2;
  } else if (family == "stablelm" || family == "stablelm2") {
    model.architecture = Architecture::kStableLm;
    model.norm = NormKind::kLayer;
    model.rope.dimension_count = 16;
    model.parallel_blocks = model.norms_each_head = family == "stablelm2";
  } else if (family == "qwen2moe") {
    model.architecture = Architecture::kQwen2Moe;
    AddExperts(12, 4, false, model);
    model.experts.shared_feed_forward_length = 512;
  } else if (family == "cohere2") {
    model.architecture = Architecture::kCohere2;
    model.norm = NormKind::kLayer;
    model.norm_biases = false;
    model.parallel_blocks = true;
    model.rope.style = RopeStyle::kInterleaved;
    model.tied_embeddings = true;
    AddMixedWindows(3, model);
    model.unturned_blocks = CustomaryUnturnedBlocks(model);
    model.output_scale = 0.0625f;
  } else if (family == "gptoss") {
    model.architecture = Architecture::kGptOss;
    AddExperts(12, 4, true, model);
    AddMixedWindows(2, model);
    model.rope.scaling = RopeScaling::kYarn;
    model.rope.factor = 2.5f;
    model.rope.original_context_length = 64;
    model.rope.attention_factor = 1.125f;
    model.rope.yarn_whole_dimensions = false;
  } else if (family == "exaone4") {
    model.architecture = Architecture::kExaone4;
    model.tied_embeddings = true;
    AddMixedWindows(3, model);
    model.unturned_blocks = CustomaryUnturnedBlocks(model);
    model.rope.scaling = RopeScaling::kLlama3;
  } else {
    OUTRIDER_CHECK(family == "gpt2", "a family the tests know");
    model.architecture = Architecture::kGpt2;
    model.norm = NormKind::kLayer;
    model.activation = Activation::kGeluTanh;
    model.gated = false;
    model.rope = {};
    model.tied_embeddings = true;
    kv_heads = 4;
  }
  model.activation = model.architecture == Architecture::kGpt2
                         ? Activation::kGeluTanh
                         : ArchitectureDefaults(model.architecture).activation;
  model.embedding_scale = std::max(model.embedding_scale, CustomaryEmbeddingScale(model));
  model.head_count.assign(model.block_count, 4);
  model.head_count_kv.assign(model.block_count, kv_heads);
  return model;
}

Hyperparameters SmallModel(const std::string& family, uint32_t block_count) {
  Hyperparameters model = SmallModel(family);
  if (!model.window_blocks.empty()) {
    model.window_blocks = AllButEvery(model.block_count, block_count);
  }
  model.block_count = block_count;
  model.unturned_blocks = CustomaryUnturnedBlocks(model);
  model.head_count.assign(block_count, model.head_count[0]);
  model.head_count_kv.assign(block_count, model.head_count_kv[0]);
  if (!model.experts.blocks.empty()) model.experts.blocks.assign(block_count, true);
  return model;
}

void WriteRandomModel(const Hyperparameters& model, TensorType type, const std::string& path) {
  WriteRandomModel(
      model, [type](std::string_view) { return type; }, path);
}

void WriteRandomModel(const Hyperparameters& model,
                      const std::function<TensorType(std::string_view tensor)>& type_of,
                      const std::string& path) {
  GgufWriter writer;
  AddHyperparameterMetadata(model, writer);
  struct Planned {
    std::string name;
    TensorType type;
    uint64_t bytes;
    bool is_matrix;
  };
  std::vector<Planned> tensors;
  for (const ExpectedTensor& expected : TensorLayout(model)) {
    const bool is_matrix = expected.dims.size() > 1 && expected.name != "position_embd.weight" &&
                           !expected.name.ends_with(".bias") &&
                           !expected.name.ends_with("_norm.weight");
    const bool is_router = expected.name.ends_with("ffn_gate_inp.weight");
    const TensorType stored = is_matrix && !is_router ? type_of(expected.name) : TensorType::kF32;
    OUTRIDER_CHECK_OK(writer.AddTensor(expected.name, stored, expected.dims));
    tensors.push_back({expected.name, stored, *TensorBytes(stored, expected.dims), is_matrix});
  }
  OUTRIDER_CHECK_OK(writer.Begin(path));
  Random random(20260120);
  for (const Planned& tensor : tensors) {
    std::vector<std::byte> bytes(tensor.bytes);
    if (tensor.is_matrix) {
      FillMatrix(tensor.type, random, bytes);
    } else {
      FillFloats(tensor.name, random, bytes);
    }
    OUTRIDER_CHECK_OK(writer.Write(bytes));
  }
  OUTRIDER_CHECK_OK(writer.Commit());
}

void ConvertForFlash(const ModelFile& model, const std::string& path) {
  OUTRIDER_CHECK_OK(Convert(model, path, {.flash = true}, [](uint64_t, std::string_view) {}));
}

}  // namespace outrider
