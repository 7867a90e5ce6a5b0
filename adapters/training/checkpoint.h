// All that a training run would have to do again if it ended here, in one file.
//
// The file is a GGUF: parameters under their own names, AdamW's moments as "m.<name>" and
// "v.<name>", all F32, and as metadata
//   training.run               what the run was asked to do, a list of "what: value"
//   training.step              steps done
//   training.losses, training.gradient_norms                    one value a step
//   training.validation_steps, training.validation_losses
//   training.hash              of all of the above
// It appears under its name whole or not at all; a run that cannot write the next one keeps the
// last.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "adapters/training/adamw.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

struct TrainingState {
  struct Validation {
    uint64_t step;
    float loss;
    bool operator==(const Validation&) const = default;
  };

  uint64_t step = 0;                  // how many are done
  std::vector<float> losses;          // of each, in nats per token
  std::vector<float> gradient_norms;  // of each, before clipping
  std::vector<Validation> validations;
  std::vector<AdamWMoments> moments;  // by parameter
};

absl::Status SaveCheckpoint(const std::string& path, std::span<const std::string> run,
                            std::span<const NamedParameter> parameters, const TrainingState& state);

// Fills parameters and state in place. InvalidArgument, naming the first difference, when the file
// is of another run; DataLoss when it is not what was written.
absl::Status LoadCheckpoint(const std::string& path, std::span<const std::string> run,
                            std::span<NamedParameter> parameters, TrainingState& state);

}  // namespace outrider
