// The early exits of a server's target: which file has them, and what is done with what they guess.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/engine/engine_target.h"
#include "common/verification/machine/verifier_config.h"

namespace CLI {
class App;
}

namespace outrider {

struct ExitFlags {
  std::string file;  // as ChooseExits() is asked (formats/models/exits_file.h)
  ExitScope scope = ExitScope::kCandidates;
  HintOrder order = HintOrder::kProbability;
};

void AddExitFlags(CLI::App& app, ExitFlags& flags);

// Attaches them, if there are any: target.info() tells. InvalidArgument for those of another model.
absl::Status AttachExits(const ExitFlags& flags, const std::string& model, EngineTarget& target);

}  // namespace outrider
