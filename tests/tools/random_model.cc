// Writes a Llama, or a Qwen 3, an OLMoE or a gpt-oss with experts, of a given shape with random weights: as
// large and as slow as a real one, which is all that a benchmark of speed or memory and a comparison of
// arithmetic need. What it says is noise.
//
// Rows are windows into one pool of quantised Gaussians, at random blocks: a model of any size is
// written as fast as the disk takes it, and no two rows of a tensor are alike.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/quantization_mix.h"
#include "common/formats/models/tensor_layout.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/half.h"
#include "common/formats/tensors/quantize.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace outrider {
namespace {

struct Shape {
  std::string_view name;
  uint32_t width, feed_forward, blocks, heads, kv_heads, vocabulary;
  uint32_t experts = 0, used_experts = 0;  // of the same feed-forward length each
  Architecture architecture = Architecture::kLlama;
  uint32_t head_length = 0;  // 0: width / heads
};

constexpr Shape kShapes[] = {
    {"2m", 256, 768, 2, 4, 2, 1024},
    {"100m", 768, 2048, 12, 12, 4, 16384},
    {"1.1b", 2048, 5632, 22, 32, 4, 32000},  // TinyLlama's
    {"7b", 4096, 11008, 32, 32, 32, 32000},  // Llama 2's
    {"moe-10m", 256, 256, 4, 4, 2, 1024, 12, 3, Architecture::kQwen3Moe},
    {"moe-1b", 1024, 512, 16, 16, 4, 32000, 40, 8, Architecture::kQwen3Moe},
    // OLMoE's and Qwen 3's 30B-A3B's, at half the width and a third of the depth of the latter.
    {"olmoe-half", 1024, 512, 16, 16, 16, 32000, 64, 8, Architecture::kOlmoe},
    {"qwen3moe-half", 1024, 384, 16, 16, 4, 32000, 128, 8, Architecture::kQwen3Moe},
    // gpt-oss 20B's, at half of its width and depth.
    {"gpt-oss-half", 1440, 1440, 12, 32, 4, 32000, 32, 4, Architecture::kGptOss, 64},
};

constexpr float kDeviation = 0.02f;  // of a weight; with it activations keep their size

Hyperparameters Describe(const Shape& shape) {
  Hyperparameters numbers;
  numbers.architecture = shape.architecture;
  numbers.name = Concat("random ", shape.name);
  numbers.context_length = 4096;
  numbers.embedding_length = shape.width;
  numbers.block_count = shape.blocks;
  numbers.feed_forward_length = shape.feed_forward;
  numbers.vocabulary_size = shape.vocabulary;
  numbers.head_count.assign(shape.blocks, shape.heads);
  numbers.head_count_kv.assign(shape.blocks, shape.kv_heads);
  numbers.key_length = numbers.value_length =
      shape.head_length > 0 ? shape.head_length : shape.width / shape.heads;
  numbers.rope = {.style = RopeStyle::kInterleaved, .dimension_count = numbers.key_length};
  if (shape.experts == 0) return numbers;
  numbers.rope.style = RopeStyle::kHalves;
  numbers.experts = {.count = shape.experts,
                     .used_count = shape.used_experts,
                     .feed_forward_length = shape.feed_forward,
                     .renormalize = shape.architecture != Architecture::kOlmoe,
                     .blocks = std::vector<bool>(shape.blocks, true)};
  if (shape.architecture != Architecture::kGptOss) return numbers;
  numbers.sliding_window = 128;
  for (uint32_t n = 0; n < shape.blocks; ++n) numbers.window_blocks.push_back(n % 2 == 0);
  numbers.rope.base = 150000;
  numbers.rope.scaling = RopeScaling::kYarn;
  numbers.rope.factor = 32;
  numbers.rope.original_context_length = numbers.context_length;
  numbers.context_length *= 32;
  return numbers;
}

// Llama 2's kinds of tokens, with made-up words.
TokenizerSpec MakeTokenizer(uint32_t vocabulary) {
  constexpr TokenId kUnknown = 0, kBos = 1, kEos = 2;
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kSentencePieceBpe;
  spec.byte_fallback = true;
  spec.space_prefix = TokenizerSpec::SpacePrefix::kAlways;
  spec.unknown = kUnknown;
  spec.bos = kBos;
  spec.eos = kEos;
  spec.add_bos = true;
  spec.tokens = {{.text = "<unk>", .kind = TokenKind::kUnknown},
                 {.text = "<s>", .kind = TokenKind::kControl},
                 {.text = "</s>", .kind = TokenKind::kControl}};
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    spec.tokens.push_back({.text = text, .kind = TokenKind::kByte});
  }
  while (spec.tokens.size() < vocabulary) {
    const size_t id = spec.tokens.size();
    spec.tokens.push_back({.text = Concat("\u2581w", id), .score = -static_cast<float>(id)});
  }
  return spec;
}

class RandomWeights {
 public:
  explicit RandomWeights(uint64_t seed) : random_(seed), values_(kPoolElements) {
    // Box and Muller's: the standard library's normal distribution differs between platforms.
    for (size_t i = 0; i < values_.size(); i += 2) {
      const float radius = kDeviation * std::sqrt(-2.0f * std::log(1.0f - Uniform()));
      const float angle = 2.0f * std::numbers::pi_v<float> * Uniform();
      values_[i] = radius * std::cos(angle);
      values_[i + 1] = radius * std::sin(angle);
    }
  }

  absl::Status Write(TensorType type, const std::vector<uint64_t>& dims, GgufWriter& writer) {
    if (dims.size() == 1) return WriteNorm(dims[0], writer);
    OUTRIDER_ASSIGN_OR_RETURN(const std::span<const std::byte> pool, Pool(type));
    const uint64_t windows = (kPoolElements - dims[0]) / kWindowElements + 1;
    const uint64_t rows =
        std::accumulate(dims.begin() + 1, dims.end(), uint64_t{1}, std::multiplies());
    for (uint64_t row = 0; row < rows; ++row) {
      const uint64_t first = random_() % windows * kWindowElements;
      OUTRIDER_RETURN_IF_ERROR(
          writer.Write(pool.subspan(RowBytes(type, first), RowBytes(type, dims[0]))));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kPoolElements = uint64_t{4} << 20;
  static constexpr uint64_t kWindowElements = 256;  // the largest block

  float Uniform() { return static_cast<float>(random_() >> 40) * 0x1p-24f; }

  absl::Status WriteNorm(uint64_t count, GgufWriter& writer) {
    std::vector<float> norm(count);
    for (float& value : norm) value = 0.75f + 0.5f * Uniform();
    return writer.Write(std::as_bytes(std::span(norm)));
  }

  // Of types that are read and not written: any bits, with scales of about the weights' size.
  void FillBlocks(TensorType type, std::vector<std::byte>& blocks) {
    const TensorTypeInfo& info = Info(type);
    for (std::byte& byte : blocks) byte = static_cast<std::byte>(random_() >> 56);
    const auto put_half = [&](size_t at, float scale) {
      const uint16_t half = FloatToHalf(scale * kDeviation);
      std::memcpy(blocks.data() + at, &half, sizeof(half));
    };
    for (size_t at = 0; at < blocks.size(); at += info.block_bytes) {
      if (type == TensorType::kMXFP4) blocks[at] = std::byte{120};
      if (type == TensorType::kQ3_K) put_half(at + 108, 0.02f);
      if (type == TensorType::kQ2_K) {
        put_half(at + 80, 0.06f);
        put_half(at + 82, 0.09f);
      }
    }
  }

  absl::StatusOr<std::span<const std::byte>> Pool(TensorType type) {
    std::vector<std::byte>& pool = pools_[type];
    if (pool.empty()) {
      pool.resize(RowBytes(type, kPoolElements));
      if (!CanQuantize(type)) {
        FillBlocks(type, pool);
      } else {
        OUTRIDER_RETURN_IF_ERROR(Quantize(type, values_, pool));
      }
    }
    return pool;
  }

  std::mt19937_64 random_;
  std::vector<float> values_;
  absl::btree_map<TensorType, std::vector<std::byte>> pools_;
};

absl::Status Run(std::string_view shape_name, std::string_view type_name, const std::string& out) {
  const Shape* shape = nullptr;
  std::string names;
  for (const Shape& known : kShapes) {
    if (known.name == shape_name) shape = &known;
    names += Concat(names.empty() ? "" : ", ", known.name);
  }
  if (shape == nullptr) return InvalidArgument("no shape '", shape_name, "'; there are ", names);
  const std::optional<TensorType> wanted = TensorTypeFromName(type_name);
  if (!wanted || !CanDequantize(*wanted)) {
    return InvalidArgument("cannot write '", type_name,
                           "'; types are those the README says are read");
  }

  const Hyperparameters numbers = Describe(*shape);
  GgufWriter writer;
  AddHyperparameterMetadata(numbers, writer);
  AddTokenizerMetadata(MakeTokenizer(shape->vocabulary), writer);

  std::vector<std::pair<TensorType, std::vector<uint64_t>>> tensors;
  for (const ExpectedTensor& expected : TensorLayout(numbers)) {
    if (!expected.required && expected.name != "output.weight") continue;
    const ModelTensor tensor{.name = expected.name,
                             .type = TensorType::kF32,
                             .dims = expected.dims,
                             .bytes = 0,
                             .place = {}};
    // As published, MXFP4 is the experts'.
    const bool is_others =
        wanted == TensorType::kMXFP4 && expected.name.find("_exps") == std::string::npos;
    const TensorType type = MixedType(tensor, numbers, is_others ? TensorType::kQ8_0 : *wanted);
    OUTRIDER_RETURN_IF_ERROR(writer.AddTensor(expected.name, type, expected.dims));
    tensors.emplace_back(type, expected.dims);
  }
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(out));
  RandomWeights weights(20260);
  for (const auto& [type, dims] : tensors) {
    OUTRIDER_RETURN_IF_ERROR(weights.Write(type, dims, writer));
  }
  return writer.Commit();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs(
        "usage: random_model SHAPE TYPE OUT.gguf\n\n"
        "Writes a Llama with random weights. SHAPE is 2m, 100m, 1.1b or 7b; or moe-10m or moe-1b, "
        "a\n"
        "Qwen 3 of 12 experts of which 3 are used, or of 40 and 8; or olmoe-half, qwen3moe-half "
        "or\n"
        "gpt-oss-half, those models at half of their width. TYPE is f32, f16, bf16, or a "
        "quantised\n"
        "type that is read: q4_k, q5_k and iq4_xs make llama.cpp's mixes, mxfp4 gpt-oss's.\n",
        stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "random_model: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
