// The commands of `simulate`. Each registers its flags and help; the one the user chose leaves its
// body in `chosen`.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace outrider {

using CommandBody = std::function<absl::Status()>;

void AddRunCommand(CLI::App& app, CommandBody& chosen);
void AddCompareCommand(CLI::App& app, CommandBody& chosen);
void AddSweepCommand(CLI::App& app, CommandBody& chosen);
void AddPaperCommand(CLI::App& app, CommandBody& chosen);
void AddExitsCommand(CLI::App& app, CommandBody& chosen);
void AddRegretCommand(CLI::App& app, CommandBody& chosen);
void AddHindsightCommand(CLI::App& app, CommandBody& chosen);
void AddCrowdCommand(CLI::App& app, CommandBody& chosen);
void AddFaultsCommand(CLI::App& app, CommandBody& chosen);

// Unavailable, naming the file.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace outrider
