// outrider-server: a target for many devices.
#include <memory>

#include "CLI/CLI.hpp"
#include "common/base/program.h"
#include "common/base/status.h"
#include "server/config/config_file.h"
#include "server/config/server_flags.h"
#include "server/loaded_target.h"
#include "server/operations/operations.h"
#include "server/serve.h"

namespace outrider {
namespace {

constexpr char kDescription[] =
    "outrider-server: the large model for many devices. Each drafts ahead on its own; this checks "
    "what they drafted and writes, token for token, what the model alone would have written.";

constexpr char kFooter[] =
    "A device connects with `outrider run --server HOST:PORT --draft small.gguf --prompt TEXT`.\n"
    "SIGTERM or Ctrl-C drains: no new sessions, and those there are have --drain-seconds left; a "
    "second one ends at once.\n"
    "Every flag has an environment twin: --model is OUTRIDER_MODEL; and may stand in a file "
    "(--config). Exit codes: 0 done, 1 failed, 2 wrong usage.";

absl::Status LoadAndServe(const ServerFlags& flags) {
  BlockSignals();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Operations> operations,
                            Operations::Open(flags.operations));
  OUTRIDER_ASSIGN_OR_RETURN(const LoadedTarget loaded, LoadTarget(flags, operations->log()));
  return Serve(flags, loaded.tokenizer(), loaded.target(), loaded.pool(), *operations);
}

absl::Status CheckAndServe(const ServerFlags& flags, const ConfigFile& config) {
  OUTRIDER_RETURN_IF_ERROR(CheckServerFlags(flags));
  if (!config.is_check()) return LoadAndServe(flags);
  config.Print();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "outrider-server");
  app.footer(kFooter);
  app.set_version_flag("--version", "outrider-server " OUTRIDER_VERSION);
  ServerFlags flags;
  AddServerFlags(app, flags);
  const ConfigFile config(app);
  return RunProgram(app, argc, argv, [&] { return CheckAndServe(flags, config); });
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
