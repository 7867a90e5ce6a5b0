// outrider-adapters: trains what rides along with a model, and the small models themselves.
#include "CLI/CLI.hpp"
#include "adapters/cli/command.h"
#include "common/base/program.h"

namespace outrider {
namespace {

constexpr char kDescription[] =
    "Trains tokenizers, small language models, drafts and exits for Outrider from plain text "
    "files.";

constexpr char kFooter[] =
    "Text files are plain or gzip'd; a line \"<|endoftext|>\" separates documents.\n"
    "`outrider-adapters COMMAND --help` explains a command. Exit codes: 0 done, 1 failed, 2 wrong "
    "usage.";

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "outrider-adapters");
  app.footer(kFooter);
  app.set_version_flag("--version", "outrider-adapters " OUTRIDER_VERSION);
  app.require_subcommand(1);

  CommandBody chosen;
  AddTrainTokenizerCommand(app, chosen);
  AddTrainLmCommand(app, chosen);
  AddAverageModelsCommand(app, chosen);
  AddDistillDraftCommand(app, chosen);
  AddEvaluateDraftCommand(app, chosen);
  AddTrainExitsCommand(app, chosen);
  AddCalibrateExitsCommand(app, chosen);
  AddEvaluateExitsCommand(app, chosen);

  return RunProgram(app, argc, argv, [&chosen] { return chosen(); });
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
