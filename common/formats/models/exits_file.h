// Exit heads as they lie in a file: small adapters that guess, from the hidden state after some
// layer, what a target will choose in the end, and how far each guess is to be believed. EXITS.md
// beside this file draws the format and says what the numbers mean; common/engine/exit_heads.h uses
// them.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const TrainedExits exits, ReadExits("target.exits.gguf"));
//   OUTRIDER_RETURN_IF_ERROR(WriteExits(exits, "again.exits.gguf"));
//
// Exits belong to one target, by the hash of its weights: its shape alone does not tell a model
// from its next checkpoint, and the calibration holds for the weights it was measured on.
//
// Errors: InvalidArgument, one sentence that starts with the path and names the key or tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// The target that exits were trained for.
struct ExitsTarget {
  std::string name;
  uint64_t content_hash = 0;  // of its weights: ResidentWeights::content_hash
  uint32_t embedding_length = 0;
  uint32_t layer_count = 0;
  uint32_t vocabulary_size = 0;

  bool operator==(const ExitsTarget&) const = default;
};

// A piecewise linear function: 0 up to knots[0], slopes[i] from knots[i] to knots[i + 1], constant
// from the last knot on. Without knots it is 0.
struct PiecewiseLinear {
  std::vector<float> knots;   // rising
  std::vector<float> slopes;  // one fewer; all of them >= 0, or all <= 0, by what it is used for

  bool operator==(const PiecewiseLinear&) const = default;
};

// P(an exit's outcome equals the verdict), a logistic function of a sum. What each argument is,
// exit_guess.h says. `kappa` divides the scores that the arguments are made of.
struct ExitCalibration {
  float kappa = 1;  // above 0
  float bias = 0;
  PiecewiseLinear doubt;              // falls
  PiecewiseLinear entropy;            // falls
  PiecewiseLinear margin;             // rises
  float agrees_with_previous = 0;     // >= 0; added when the exit before guesses the same outcome
  float agrees_with_first_draft = 0;  // >= 0; added when the outcome is what the draft put first

  bool operator==(const ExitCalibration&) const = default;
};

// h' = h + r up(silu(down(h / r))), r the root mean square of h.
struct TrainedExit {
  uint32_t layer = 0;  // after this one, counted from 0; never after the last
  uint32_t rank = 0;
  std::vector<float> down = {};  // [rank, embedding_length], a row an output
  std::vector<float> up = {};    // [embedding_length, rank]
  std::optional<ExitCalibration> greedy = {};
  std::optional<ExitCalibration> sampled = {};

  bool operator==(const TrainedExit&) const = default;
};

struct TrainedExits {
  static constexpr size_t kExitsMax = 256;
  static constexpr size_t kKnotsMax = 64;

  ExitsTarget target;
  std::vector<TrainedExit> exits;        // by rising layer; at least one
  std::vector<TokenId> frequent_tokens;  // rising; may be empty
  TensorType type = TensorType::kF32;    // of the matrices in the file

  bool operator==(const TrainedExits&) const = default;
};

// Which file has the exits that a model is to have.
struct ExitsChoice {
  std::string path = {};   // empty: it has none
  bool was_asked = false;  // for this very file
};

// `asked` is a path, "none", or empty: that beside the model then, if there is one
// (target.exits.gguf beside target.gguf, exits.gguf in a directory).
ExitsChoice ChooseExits(const std::string& asked, const std::string& model);

absl::StatusOr<TrainedExits> ReadExits(const std::string& path);
// The same of bytes in memory; `name` stands in for the path.
absl::StatusOr<TrainedExits> ParseExits(std::span<const std::byte> bytes, const std::string& name);

// Complete under its name or not at all. Matrices are written as exits.type, F32 or F16; F16 rounds
// them. InvalidArgument for what ReadExits() would refuse.
absl::Status WriteExits(const TrainedExits& exits, const std::string& path);

}  // namespace outrider
