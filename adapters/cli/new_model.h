// A model that a command trains: how it begins, what decides its outcome, and how it ends up in a
// file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/cli/training_flags.h"
#include "adapters/training/trainer.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

struct NewModel {
  Hyperparameters hyperparameters;
  TorchTransformer transformer;

  uint64_t parameter_count() const;
};

// From the file `init`, or when that is empty from nothing, in the shape that the flags ask for.
absl::StatusOr<NewModel> BeginModel(const std::string& init, const ShapeFlags& shape,
                                    uint32_t vocabulary_size, const TrainingFlags& training);

// What of a run's outcome is decided by the model and the flags, for its checkpoint.
std::vector<std::string> AskedOf(const NewModel& model, const TrainerOptions& options,
                                 const TrainingFlags& training);

// "11.2 M parameters, 7680425 tokens of text, 2900 steps of 2048 tokens", on standard error.
void TellPlan(const NewModel& model, const TrainerOptions& options, const TokenRows& rows);

// Writes the file; the checkpoint has served.
absl::Status FinishModel(const NewModel& model, const TokenizerSpec& tokenizer,
                         const TrainingFlags& training);

}  // namespace outrider
