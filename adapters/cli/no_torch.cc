// The commands that train models, where libtorch was not found at build time.
#include "CLI/CLI.hpp"
#include "adapters/cli/command.h"
#include "common/base/status.h"

namespace outrider {
namespace {

void AddAbsent(CLI::App& app, CommandBody& chosen, const char* name) {
  CLI::App* command = app.add_subcommand(name, "Not in this build: it was made without libtorch");
  command->allow_extras();
  command->callback([name, &chosen] {
    chosen = [name] {
      return FailedPrecondition(name,
                                " is not in this build, which was made without libtorch: "
                                "apt-get install libtorch-dev and build again");
    };
  });
}

}  // namespace

void AddTrainLmCommand(CLI::App& app, CommandBody& chosen) {
  AddAbsent(app, chosen, "train-lm");
}

void AddTrainExitsCommand(CLI::App& app, CommandBody& chosen) {
  AddAbsent(app, chosen, "train-exits");
}

void AddDistillDraftCommand(CLI::App& app, CommandBody& chosen) {
  AddAbsent(app, chosen, "distill-draft");
}

}  // namespace outrider
