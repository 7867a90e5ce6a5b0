// outrider-server with a target that takes as long as it is told to (paced_target.h).
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "bench/emulators/paced_target.h"
#include "bench/simulator/world/time_profile.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "server/config/server_flags.h"
#include "server/loaded_target.h"
#include "server/operations/operations.h"
#include "server/serve.h"

namespace outrider {
namespace {

constexpr const char* kDescription =
    "A paced outrider-server, to measure with: it computes every pass of the model, and waits then "
    "until as much time is over as a pass of a larger target would take. Tokens and texts are the "
    "model's; times are not";

constexpr const char* kFooter =
    "A pace is MS whatever the rows, ROWS:MS for each count known and straight lines between them, "
    "or a measured shape, cpu or gpu, with what one row takes. A prompt takes the time of as many "
    "rows.\n"
    "  paced_server --pass 20 --model target.gguf --threads 1\n"
    "  paced_server --pass 1:20,16:28 --model target.gguf\n"
    "  paced_server --pass cpu:40 --model target.gguf\n"
    "In the end it says how many runs took longer than their pace; the model is too large for it "
    "then.";

struct PacedFlags {
  ServerFlags server;
  std::string pass;
};

void Print(const PacedTarget::Lateness& lateness) {
  std::fprintf(stderr,
               "paced: %llu of %llu runs took longer than their pace, by %s ms at the most\n",
               static_cast<unsigned long long>(lateness.late_count),
               static_cast<unsigned long long>(lateness.run_count),
               Fixed(ToMilliseconds(lateness.most), 1).c_str());
}

absl::Status LoadAndServe(const PacedFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(TimeProfile pace, TimeProfile::Parse(flags.pass));
  std::fprintf(stderr, "paced: passes take %s ms, whatever %s would\n", flags.pass.c_str(),
               flags.server.model.c_str());
  OUTRIDER_RETURN_IF_ERROR(CheckServerFlags(flags.server));
  BlockSignals();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Operations> operations,
                            Operations::Open(flags.server.operations));
  OUTRIDER_ASSIGN_OR_RETURN(const LoadedTarget loaded, LoadTarget(flags.server, operations->log()));
  PacedTarget target(loaded.target(), std::move(pace));
  OUTRIDER_RETURN_IF_ERROR(
      Serve(flags.server, loaded.tokenizer(), target, loaded.pool(), *operations));
  Print(target.lateness());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "paced_server");
  app.footer(kFooter);
  PacedFlags flags;
  app.add_option("--pass", flags.pass, "What passes take, in milliseconds, by their rows")
      ->required();
  AddServerFlags(app, flags.server);
  return RunProgram(app, argc, argv, [&] { return LoadAndServe(flags); });
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
