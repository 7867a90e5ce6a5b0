// What an architecture fixes by its name alone, the bounds each number is read within, and what
// must hold between them wherever they came from. Private to this room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/models/hyperparameters.h"

namespace outrider {

// Far above any model there is, and small enough that no product of two overflows 64 bits and a
// hostile file cannot make us allocate by a number it made up.
inline constexpr uint32_t kMaxBlockCount = 4096;
inline constexpr uint32_t kMaxHeadCount = 1 << 16;
inline constexpr uint32_t kMaxHeadLength = 1 << 16;
inline constexpr uint32_t kMaxExpertCount = 1 << 16;
inline constexpr uint32_t kMaxWidth = 1 << 24;       // embedding and feed-forward lengths
inline constexpr uint32_t kMaxVocabulary = 1 << 28;  // token ids are int32
inline constexpr uint32_t kMaxContext = 1u << 31;    // positions
inline constexpr uint32_t kMaxRelativeBuckets = 1 << 16;

// What a model of this architecture (GGUF's name for it, or Hugging Face's) needs that is not here
// yet, as a sentence goes on after a colon; empty for any that is not known.
std::string_view MissingPart(std::string_view name);

// The architecture called `name` in GGUF; Unimplemented, with the list of those there are, for any
// other. `file` starts the message.
absl::StatusOr<Architecture> ArchitectureFromName(std::string_view name, const std::string& file);

// Norm, activation, gate, rope style, expert weighting and how blocks are put together, as the
// architecture has them unless the file says otherwise; everything else zero.
Hyperparameters ArchitectureDefaults(Architecture architecture);

bool IsGemma(Architecture architecture);
bool IsGranite(Architecture architecture);  // with and without experts

// Every so-manyth block sees everything, the others a window, where a file says no more of it.
// 0: an architecture of which all blocks have the window or none.
uint32_t WindowStep(Architecture architecture);

// By block: all but each `step`-th. Empty, which is the same of all of them, for a step of 0.
std::vector<bool> AllButEvery(uint32_t step, uint32_t block_count);

// A window of all blocks is one of which nothing is said by block, and one of none is no window.
void NormalizeWindows(Hyperparameters& model);

// Which blocks are without rope by the architecture's rule: empty where none are.
std::vector<bool> CustomaryUnturnedBlocks(const Hyperparameters& model);

// What embeddings are multiplied by by the architecture's rule.
float CustomaryEmbeddingScale(const Hyperparameters& model);

// What scores are multiplied by: by the model's own rule, or the architecture's for its size, where
// that is not 1 / sqrt(key_length). GGUF files of Gemma do not say it.
std::optional<float> CustomaryAttentionScale(const Hyperparameters& model);

// What scores and logits are capped at by the architecture's rule; 0: at nothing.
float CustomaryAttentionSoftCap(Architecture architecture);
float CustomaryOutputSoftCap(Architecture architecture);

// 1 / sqrt(number), rounded once.
float InverseRoot(double number);

// What LongRoPE multiplies cosines and sines by where nothing else is said, for a context longer by
// `factor` than the original one.
float LongRopeAttentionFactor(double factor, uint32_t original_context_length);

// What cosines and sines are multiplied by when they are stretched by `factor` and nothing else is
// said (the YaRN paper's rule).
float YarnAttentionFactor(float factor);

// What T5 multiplies its last hidden state by when the embeddings serve as output matrix.
float TiedT5OutputScale(uint32_t embedding_length);

// Above zero and finite, also as a float. False for NaN.
bool IsPositiveFloat(double number);

// How the file at hand spells what the checks speak of.
struct HyperparameterKeys {
  std::string head_count;
  std::string head_count_kv;
  std::string rope_dimension_count;
  std::string expert_count;
  std::string expert_used_count;
  std::string relative_buckets;
};

// Whether the numbers fit each other. The ranges of single numbers were checked where they were
// read. Messages start with `name`.
absl::Status CheckHyperparameters(const Hyperparameters& hyperparameters,
                                  const HyperparameterKeys& keys, const std::string& name);

}  // namespace outrider
