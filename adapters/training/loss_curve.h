// What a run has learned so far, as a table for programs and a picture for people.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "adapters/training/checkpoint.h"
#include "adapters/training/schedule.h"

namespace outrider {

// One line a step: step,tokens,learning_rate,loss,gradient_norm,validation_loss (empty where none
// was measured).
std::string LossTable(const TrainingState& state, const Schedule& schedule,
                      uint64_t tokens_per_step);

// Loss over tokens read, the training loss as means over equal parts of the run.
std::string LossPicture(const TrainingState& state, uint64_t tokens_per_step,
                        const std::string& title);

// Both, as `path`.csv and `path`.svg.
absl::Status WriteLossCurve(const std::string& path, const TrainingState& state,
                            const Schedule& schedule, uint64_t tokens_per_step,
                            const std::string& title);

}  // namespace outrider
