#include "server/config/server_flags.h"

#include "CLI/CLI.hpp"
#include "common/base/network_address.h"
#include "common/base/status.h"
#include "common/torch/load_engine.h"
#include "server/security/gatekeeper.h"

namespace outrider {
namespace {

// Empty for a good one, as CLI11 wants it.
std::string CheckDeviceFlag(const std::string& device) {
  return std::string(Message(CheckDevice(device)));
}

absl::Status CheckAdmin(const ServerFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const NetworkAddress where,
                            NetworkAddress::Parse(flags.operations.admin));
  if (where.is_loopback() || flags.operations.admin_open) return absl::OkStatus();
  return InvalidArgument("--admin ", flags.operations.admin,
                         ": others reach this address, and it is plain HTTP for whoever does; "
                         "take one of 127.0.0.1, or say --admin-open");
}

}  // namespace

void AddServerFlags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--model", flags.model, "The target: a .gguf file or a Hugging Face directory")
      ->envname("OUTRIDER_MODEL")
      ->required();
  app.add_option("--device", flags.device,
                 "What computes: cpu, cuda (a GPU; cuda:1 is the second), torch (libtorch on this "
                 "processor) or torch:cuda (on a GPU). libtorch's tokens have a numerics id of "
                 "their own and are not the same to the bit in every batch")
      ->envname("OUTRIDER_DEVICE")
      ->check(CLI::Validator(CheckDeviceFlag, "", "device"))
      ->capture_default_str();
  app.add_option("--draft", flags.draft,
                 "A small model of the target's family, for devices that leave drafting to the "
                 "server (outrider run --place server)")
      ->envname("OUTRIDER_DRAFT");
  AddExitFlags(app, flags.exits);
  app.add_option("--listen", flags.listen, "Where devices connect: host:port; port 0: any free one")
      ->envname("OUTRIDER_LISTEN")
      ->capture_default_str();
  AddSecurityFlags(app, flags.security);
  app.add_option("--context", flags.context,
                 "Tokens of one session, prompt and reply (default: the model's, 4096 at the most)")
      ->envname("OUTRIDER_CONTEXT");
  app.add_option("--sessions", flags.sessions,
                 "Sessions whose keys and values are in memory at a time")
      ->envname("OUTRIDER_SESSIONS")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app.add_option(
         "--kv-memory", flags.kv_memory,
         "What keys and values of all sessions may take, as in 900MiB; when it is lent out, "
         "new sessions are refused until some is free (default: all sessions at their "
         "longest)")
      ->envname("OUTRIDER_KV_MEMORY")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  app.add_option("--pass-nodes", flags.pass_nodes, "Drafted tokens of one pass, at the most")
      ->envname("OUTRIDER_PASS_NODES")
      ->check(CLI::Range(1u, 255u))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "Threads that compute")
      ->envname("OUTRIDER_THREADS")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app.add_option("--isa", flags.isa, "Instruction set, in place of the best this processor has")
      ->envname("OUTRIDER_ISA");
  app.add_option("--drain-seconds", flags.drain_seconds, "What sessions have left after SIGTERM")
      ->envname("OUTRIDER_DRAIN_SECONDS")
      ->capture_default_str();
  AddOperationFlags(app, flags.operations);
  AddLimitFlags(app, flags.limits);
}

absl::Status CheckServerFlags(const ServerFlags& flags) {
  if (!flags.operations.admin.empty()) {
    OUTRIDER_RETURN_IF_ERROR(CheckAdmin(flags));
  }
  OUTRIDER_RETURN_IF_ERROR(Gatekeeper::Open(flags.security.keys).status());
  return CheckTransport(flags.security.transport, flags.listen);
}

}  // namespace outrider
