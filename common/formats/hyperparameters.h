// What a model is, in numbers: everything the forward pass has to know besides the weights, whether
// it came from GGUF metadata or from a Hugging Face config.json.
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

// Named after GGUF's general.architecture. Mistral, Mixtral, Vicuna and TinyLlama are kLlama.
enum class Architecture { kLlama, kQwen2, kQwen3, kQwen3Moe, kOlmoe, kGpt2, kT5, kBart, kSwitch };

std::string_view Name(Architecture architecture);  // "llama", "qwen3moe", "switch", ...

enum class NormKind { kRms, kLayer };
enum class Activation { kSilu, kGeluTanh, kGeluErf, kRelu };
enum class RopeStyle { kNone, kInterleaved, kHalves };  // pairs (2i, 2i+1), or (i, i+n/2)
enum class RopeScaling { kNone, kLinear, kYarn, kLlama3, kLongRope };

struct Rope {
  RopeStyle style = RopeStyle::kNone;
  uint32_t dimension_count = 0;
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  uint32_t original_context_length = 0;  // yarn, llama3; 0: not given
  double attention_factor = 1.0;         // yarn
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
  double low_frequency_factor =
      1.0;  // llama3; in GGUF they are baked into the tensor rope_freqs.weight
  double high_frequency_factor = 4.0;  // llama3
};

struct Experts {
  uint32_t count = 0;  // 0: a dense model
  uint32_t used_count = 0;
  uint32_t feed_forward_length = 0;
  bool renormalize = false;  // the chosen experts' weights are divided by their sum
  uint32_t sparse_step = 1;  // every how many-th layer has experts (Switch: 2)
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

  std::vector<uint32_t> head_count;     // per block
  std::vector<uint32_t> head_count_kv;  // per block
  uint32_t key_length = 0;              // of one head
  uint32_t value_length = 0;
  std::optional<uint32_t> sliding_window;  // keys further back are not seen

  NormKind norm = NormKind::kRms;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::kSilu;
  bool gated = true;  // act(gate(x)) * up(x) rather than act(up(x))
  Rope rope;
  Experts experts;

  bool tied_embeddings = false;  // no output matrix of its own
  double output_scale = 1.0;     // T5 with tied embeddings: embedding_length^-0.5 before the head

  // Encoder-decoder models only.
  uint32_t relative_buckets = 0;
  uint32_t relative_max_distance = 0;
  std::optional<uint32_t> decoder_start_token;
  bool scale_embeddings = false;  // BART: times sqrt(embedding_length)

  bool is_encoder_decoder() const { return decoder_block_count > 0; }
};

// NotFound names the missing key, InvalidArgument the impossible value, Unimplemented the
// unsupported architecture (and lists those that are supported).
absl::StatusOr<Hyperparameters> HyperparametersFromGguf(const GgufFile& file,
                                                        const std::string& name);
absl::StatusOr<Hyperparameters> HyperparametersFromConfig(std::string_view config_json,
                                                          const std::string& name);

// Adds general.architecture, general.name and the {arch}.* keys.
void AddHyperparameterMetadata(const Hyperparameters& hyperparameters, GgufWriter& writer);

}  // namespace outrider
