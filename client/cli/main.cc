// outrider: large language models at the edge.
#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

constexpr char kDescription[] =
    "Outrider: large language models at the edge. A small draft model on the device rides ahead, a "
    "large target "
    "model checks whole trees of its tokens at once, and the text is exactly what the target alone "
    "would write.";

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

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  const absl::Status status = chosen();
  if (status.ok()) return 0;
  std::fprintf(stderr, "outrider: %s\n", std::string(Message(status)).c_str());
  return kFailure;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
