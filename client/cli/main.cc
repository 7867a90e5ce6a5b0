// outrider: large language models at the edge.
#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "common/base/program.h"

namespace outrider {
namespace {

constexpr char kDescription[] =
    "Outrider: large language models at the edge. A small draft model on the device rides ahead, a "
    "large target model checks whole trees of its tokens at once, and the text is exactly what the "
    "target alone would write.";

constexpr char kFooter[] =
    "A model is a .gguf file or a Hugging Face directory (config.json, *.safetensors, "
    "tokenizer.json).\n"
    "`outrider COMMAND --help` explains a command. Exit codes: 0 done, 1 failed, 2 wrong usage.";

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "outrider");
  app.footer(kFooter);
  app.set_version_flag("--version", "outrider " OUTRIDER_VERSION);
  app.require_subcommand(1);

  CommandBody chosen;
  AddInspectCommand(app, chosen);
  AddTokenizeCommand(app, chosen);
  AddDetokenizeCommand(app, chosen);
  AddConvertCommand(app, chosen);
  AddRunCommand(app, chosen);
  AddPlanCommand(app, chosen);

  return RunProgram(app, argc, argv, chosen);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
