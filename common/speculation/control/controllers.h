// The controllers there are, by what a user asks for.
#pragma once

#include <memory>

#include "common/speculation/control/controller.h"
#include "common/speculation/policies/policies.h"

namespace outrider {

// Whether passes are of the size that pays: where a policy weighs what it grows, rather than growing
// what somebody has set.
bool ChoosesPassSize(PolicyKind kind);

// For a policy, one that keeps to it; for kAuto, one that measures and chooses.
std::unique_ptr<Controller> MakeController(const PolicyOptions& options, const ControlSetup& setup);

}  // namespace outrider
