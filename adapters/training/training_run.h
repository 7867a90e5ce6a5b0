// A whole training run: from its last checkpoint, if it has one, to its last step, with progress on
// the terminal and a loss curve on disk.
//
//   model.gguf.checkpoint  every few minutes, when the run is told to stop (Ctrl-C, SIGTERM) and at
//                          its end; gone when model.gguf has been written
//   model.csv, model.svg   the loss so far, whenever a checkpoint is written
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "adapters/text/token_rows.h"
#include "adapters/training/trainer.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

struct TrainingRun {
  std::string out;                 // the model that is being made
  std::vector<std::string> asked;  // all that decides what comes out, "what: value"
  TrainerOptions options;
};

// `validation` may be null. Cancelled when the run was told to stop and has been saved.
absl::Status Train(const TrainingRun& run, std::span<NamedParameter> parameters, at::Device device,
                   TokenRows& rows, TokenRows* validation, const Loss& loss);

// The model itself is written: nothing is left to go on with.
void RemoveCheckpoint(const std::string& out);

}  // namespace outrider
