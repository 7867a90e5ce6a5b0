// What a model is, in numbers: everything the forward pass has to know besides the weights, whether
// it came from GGUF metadata or from a Hugging Face config.json.
//
// Both readers check every number before anyone allocates by it, and refuse what the forward pass
// would silently compute differently: states that recur, experts in groups, dynamic rope. A wrong
// token is worse than a refusal. Real numbers are floats, as GGUF stores them, so that a model and
// its conversion agree to the bit.
//
//   hyperparameters_config.cc   config.json, old spellings and new
//   hyperparameters_config_keys.h and which keys there may be
//   hyperparameters_decoders.cc the part of it that is about decoders
//   hyperparameters_rope.cc     and about their rope
//   hyperparameters_gguf.cc     {arch}.* metadata, read
//   hyperparameters_gguf_keys.h and which of it there may be
//   hyperparameters_write.cc    and written
//   hyperparameters_rules.cc    what must hold wherever the numbers came from
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace outrider {

class GgufFile;
class GgufWriter;

// Named after GGUF's general.architecture. Mistral, Mixtral, Vicuna, TinyLlama, SmolLM 1 and 2, and
// Falcon 3 are kLlama; kMistral3 is Ministral 3.
enum class Architecture {
  kLlama,
  kMistral3,
  kQwen2,
  kQwen2Moe,
  kQwen3,
  kQwen3Moe,
  kOlmo2,
  kOlmoe,
  kGemma,
  kGemma2,
  kGemma3,
  kPhi3,
  kSmolLm3,
  kGranite,
  kGraniteMoe,
  kStableLm,
  kCohere2,
  kExaone4,
  kGptOss,
  kGpt2,
  kT5,
  kBart,
  kSwitch,
};

std::string_view Name(Architecture architecture);  // "llama", "qwen3moe", "switch", ...

enum class NormKind { kRms, kLayer };
// kClampedSilu is gpt-oss's: gate and what it gates are clamped before (kernels/NUMERICS.md, 5).
enum class Activation { kSilu, kGeluTanh, kGeluErf, kRelu, kClampedSilu };
enum class RopeStyle { kNone, kInterleaved, kHalves };  // pairs (2i, 2i+1), or (i, i+n/2)

// kLlama3 divides each frequency by a factor of its own, and those factors are the tensor
// rope_freqs.weight: a ModelFile has that tensor exactly when it says kLlama3, whichever format it
// came from. kLongRope has two such tensors, rope_factors_short.weight for texts no longer than the
// original context and rope_factors_long.weight for longer ones; which of them is settled once for
// an engine, by the longest text it takes.
enum class RopeScaling { kNone, kLinear, kYarn, kLlama3, kLongRope };

struct Rope {
  RopeStyle style = RopeStyle::kNone;
  uint32_t dimension_count = 0;
  float base = 10000.0f;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;
  uint32_t original_context_length = 0;  // yarn, llama3, longrope; 0: not given
  // yarn, longrope: what cosines and sines are multiplied by, all told
  float attention_factor = 1.0f;
  float yarn_beta_fast = 32.0f;
  float yarn_beta_slow = 1.0f;
  bool yarn_whole_dimensions = true;  // its ramp begins and ends at whole ones
  // llama3, when known: a GGUF file holds only the factors these parameters make.
  float low_frequency_factor = 1.0f;
  float high_frequency_factor = 4.0f;
  // longrope, when known: a GGUF file holds them as tensors. One for each pair.
  std::vector<float> short_factors = {};
  std::vector<float> long_factors = {};
  bool is_long = false;  // longrope: it turns by the long ones

  bool operator==(const Rope&) const = default;
};

// Queries are multiplied by 1 + scale * log(1 + floor(position / step)): texts longer than those a
// model was first trained on are looked at more sharply, the longer the more.
struct QueryGrowth {
  float scale;
  uint32_t step;

  bool operator==(const QueryGrowth&) const = default;
};

struct Experts {
  uint32_t count = 0;  // 0: a dense model
  uint32_t used_count = 0;
  uint32_t feed_forward_length = 0;
  bool renormalize = false;  // the chosen experts' weights are divided by their sum
  // Of the expert that every row goes to as well, by as much as a gate of its own says; 0: none.
  uint32_t shared_feed_forward_length = 0;
  // Which blocks have experts, encoder blocks first; the others are dense. Empty in a dense model.
  std::vector<bool> blocks;

  bool operator==(const Experts&) const = default;
};

struct Hyperparameters {
  Architecture architecture = Architecture::kLlama;
  std::string name;  // general.name, or the directory's name

  uint32_t context_length = 0;
  uint32_t embedding_length = 0;
  uint32_t block_count = 0;          // of the decoder, or of the encoder when there are both
  uint32_t decoder_block_count = 0;  // encoder-decoder models; 0 elsewhere
  uint32_t feed_forward_length = 0;
  uint32_t vocabulary_size = 0;

  std::vector<uint32_t> head_count;     // per block, encoder blocks first
  std::vector<uint32_t> head_count_kv;  // likewise
  uint32_t key_length = 0;              // of one head
  uint32_t value_length = 0;
  std::optional<uint32_t> sliding_window;  // keys further back are not seen
  std::vector<bool> window_blocks;         // by block, where not all have the window; else empty
  std::optional<float> attention_scale;    // of scores; none: 1 / sqrt(key_length)
  float attention_soft_cap = 0;            // of scores; 0: none
  std::optional<QueryGrowth> query_growth;

  NormKind norm = NormKind::kRms;
  bool norm_biases = true;  // where a norm is one that has any: layer norm
  float norm_epsilon = 1e-5f;
  // Queries and keys take a layer norm, each head by weights of its own (StableLM 2 12B).
  bool norms_each_head = false;
  bool parallel_blocks = false;  // attention and feed-forward part read the same normed rows
  Activation activation = Activation::kSilu;
  bool gated = true;  // act(gate(x)) * up(x) rather than act(up(x))
  Rope rope;
  std::optional<Rope> window_rope;    // of blocks with the window, where they turn in another way
  std::vector<bool> unturned_blocks;  // by block: without rope; empty: there are none
  Experts experts;

  float embedding_scale = 1.0f;  // what embeddings are multiplied by
  float residual_scale = 1.0f;   // what attention and feed-forward part are, before they are added

  bool tied_embeddings = false;  // no output matrix of its own
  // What logits are multiplied by (tied T5: embedding_length^-0.5), and what they are divided by.
  float output_scale = 1.0f;
  float output_divisor = 1.0f;
  float output_soft_cap = 0;  // 0: none

  // Encoder-decoder models only.
  uint32_t relative_buckets = 0;
  uint32_t relative_max_distance = 0;
  std::optional<uint32_t> decoder_start_token;
  bool scale_embeddings = false;  // BART: times sqrt(embedding_length)

  bool is_encoder_decoder() const { return decoder_block_count > 0; }
  uint32_t total_block_count() const { return block_count + decoder_block_count; }
  bool has_window(uint32_t block) const {
    return sliding_window && (window_blocks.empty() || window_blocks[block]);
  }
  bool has_rope(uint32_t block) const {
    return rope.style != RopeStyle::kNone && (unturned_blocks.empty() || !unturned_blocks[block]);
  }
  bool has_experts(uint32_t block) const {
    return block < experts.blocks.size() && experts.blocks[block];
  }

  bool operator==(const Hyperparameters&) const = default;
};

// NotFound names the missing key, InvalidArgument the impossible value, Unimplemented the
// unsupported architecture (and lists those that are supported) or feature. `name` is the path, and
// starts every message; it also names a model whose file does not.
absl::StatusOr<Hyperparameters> HyperparametersFromGguf(const GgufFile& file,
                                                        const std::string& name);
absl::StatusOr<Hyperparameters> HyperparametersFromConfig(std::string_view config_json,
                                                          const std::string& name);

// Adds general.architecture, general.name and the {arch}.* keys. Reading them back gives equal
// hyperparameters, but for what the tensors tell: tied embeddings, llama3 and longrope scaling,
// StableLM's parallel blocks and norms of heads.
void AddHyperparameterMetadata(const Hyperparameters& hyperparameters, GgufWriter& writer);

}  // namespace outrider
