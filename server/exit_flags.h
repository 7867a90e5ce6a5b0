// How a server is told of its target's early exits: which file has them, and what is done with what they guess.
#pragma once

#include <string>

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

// Each with its environment twin.
void AddExitFlags(CLI::App& app, ExitFlags& flags);

}  // namespace outrider
