// Whether a simulation wrote what the target writes alone: every token of every session, once, and
// shown to its user in order.
#pragma once

#include "absl/status/status.h"
#include "bench/simulator/world/simulation.h"

namespace outrider {

// After Run(). Internal, saying which session differs, and where.
absl::Status CheckTexts(const Simulation& simulation);

}  // namespace outrider
