// A link between two programs on this machine, until it is interrupted.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "CLI/CLI.hpp"
#include "bench/emulators/link_emulator.h"
#include "common/base/program.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr const char* kDescription =
    "Emulates a network on this machine: whoever connects to its port reaches the server a while "
    "later";

constexpr const char* kFooter =
    "Prints the port on standard output, and goes on until it is interrupted.\n"
    "  outrider-server --model target.gguf --listen 127.0.0.1:7373 &\n"
    "  link_emulator --server-port 7373 --round-trip 60";

struct Flags {
  uint16_t server_port = 0;
  double round_trip_ms = 0;
};

absl::Status Emulate(const Flags& flags) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const std::chrono::duration<double, std::milli> one_way(flags.round_trip_ms / 2);
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<LinkEmulator> link,
      LinkEmulator::Start({.server_port = flags.server_port,
                           .delay = std::chrono::duration_cast<Duration>(one_way)}));
  std::printf("%u\n", unsigned{link->port()});
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "up %llu bytes, down %llu bytes\n",
               static_cast<unsigned long long>(link->passed(LinkEmulator::Way::kUp)),
               static_cast<unsigned long long>(link->passed(LinkEmulator::Way::kDown)));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "link_emulator");
  app.footer(kFooter);
  Flags flags;
  app.add_option("--server-port", flags.server_port, "Where the server listens, on this machine")
      ->required();
  app.add_option("--round-trip", flags.round_trip_ms, "Milliseconds, half of them each way")
      ->check(CLI::Range(0.0, 60000.0))
      ->capture_default_str();
  return RunProgram(app, argc, argv, [&] { return Emulate(flags); });
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
