// What an architecture fixes by its name alone, the bounds each number is read within, and what
// must hold between them wherever they came from. Private to this room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

// The architecture called `name` in GGUF; Unimplemented, with the list of those there are, for any
// other. `file` starts the message.
absl::StatusOr<Architecture> ArchitectureFromName(std::string_view name, const std::string& file);

// Norm, activation, gate, rope style and expert weighting as the architecture has them unless the
// file says otherwise; everything else zero.
Hyperparameters ArchitectureDefaults(Architecture architecture);

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
