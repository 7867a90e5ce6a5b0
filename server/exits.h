// The early exits of a server's target.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/engine/engine_target.h"
#include "server/exit_flags.h"

namespace outrider {

// Attaches them, if there are any: target.info() tells. InvalidArgument for those of another model.
absl::Status AttachExits(const ExitFlags& flags, const std::string& model, EngineTarget& target);

}  // namespace outrider
