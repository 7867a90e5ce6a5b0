// simulate: the real session and verifier machines in virtual time.
#include <fstream>
#include <string>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "common/base/program.h"
#include "common/base/status.h"

namespace outrider {

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return absl::UnavailableError(Concat(path, ": cannot be written"));
  return absl::OkStatus();
}

namespace {

constexpr char kDescription[] =
    "The real session and verifier machines in virtual time: devices, links and a server, with "
    "synthetic or recorded drafts, targets and exits. The same seed does the same, event for "
    "event.";

constexpr char kFooter[] =
    "Examples:\n"
    "  simulate run --rtt 100 --target 50              one scenario, all figures\n"
    "  simulate run --timeline picture.svg             what happens when, drawn\n"
    "  simulate compare --rtt 60 --exits 0.5:0.5       policies and baselines side by side\n"
    "  simulate sweep rtt 0:300:20 --svg rtt.svg       the same along an axis, as a picture\n"
    "  simulate paper                                  the FSD paper's figures, and ours for them\n"
    "  simulate crowd --sessions 1,4,16,64             what many sessions have of one target\n"
    "  simulate exits --traces greedy.trace,sampled.trace   what hints save, and in which order\n"
    "  simulate hindsight --target cpu:20 --rtt 0,60   what auto costs over the best fixed way\n"
    "  simulate faults --count 100000                  a random fault each: the text stays the "
    "same\n"
    "`simulate COMMAND --help` explains a command. Exit codes: 0 done, 1 failed, 2 wrong usage.";

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "simulate");
  app.footer(kFooter);
  app.require_subcommand(1);
  CommandBody chosen;
  AddRunCommand(app, chosen);
  AddCompareCommand(app, chosen);
  AddSweepCommand(app, chosen);
  AddPaperCommand(app, chosen);
  AddExitsCommand(app, chosen);
  AddRegretCommand(app, chosen);
  AddHindsightCommand(app, chosen);
  AddCrowdCommand(app, chosen);
  AddFaultsCommand(app, chosen);
  return RunProgram(app, argc, argv, chosen);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
