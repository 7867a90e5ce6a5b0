// The commands of `outrider`. Each registers its flags and help; the one the user chose leaves its
// body in `chosen`.
//
// A flag that makes no sense on its own is refused while parsing (exit code 2). What goes wrong
// later is a Status (exit code 1). Every flag has an environment twin: --type is OUTRIDER_TYPE.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace outrider {

using CommandBody = std::function<absl::Status()>;

void AddInspectCommand(CLI::App& app, CommandBody& chosen);
void AddTokenizeCommand(CLI::App& app, CommandBody& chosen);
void AddDetokenizeCommand(CLI::App& app, CommandBody& chosen);
void AddConvertCommand(CLI::App& app, CommandBody& chosen);
void AddRunCommand(CLI::App& app, CommandBody& chosen);
void AddPlanCommand(CLI::App& app, CommandBody& chosen);

}  // namespace outrider
