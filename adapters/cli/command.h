// The commands of `outrider-adapters`. Each registers its flags and help; the one the user chose
// leaves its body in `chosen`.
//
// A flag that makes no sense on its own is refused while parsing (exit code 2). What goes wrong
// later is a Status (exit code 1).
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace outrider {

using CommandBody = std::function<absl::Status()>;

void AddAverageModelsCommand(CLI::App& app, CommandBody& chosen);
void AddCalibrateExitsCommand(CLI::App& app, CommandBody& chosen);
void AddEvaluateDraftCommand(CLI::App& app, CommandBody& chosen);
void AddEvaluateExitsCommand(CLI::App& app, CommandBody& chosen);
void AddTrainTokenizerCommand(CLI::App& app, CommandBody& chosen);
// These need libtorch; no_torch.cc says so where it is absent.
void AddTrainLmCommand(CLI::App& app, CommandBody& chosen);
void AddDistillDraftCommand(CLI::App& app, CommandBody& chosen);
void AddTrainExitsCommand(CLI::App& app, CommandBody& chosen);

}  // namespace outrider
