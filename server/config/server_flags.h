// What a server is told: on its command line, by its environment, in a file (config_file.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/config/limit_flags.h"
#include "server/exit_flags.h"
#include "server/operations/operation_flags.h"
#include "server/security/security_flags.h"

namespace CLI {
class App;
}

namespace outrider {

struct ServerFlags {
  std::string model;
  std::string device = "cpu";
  std::string draft;  // empty: Generate is the target alone
  ExitFlags exits;
  SecurityFlags security;
  std::string listen = "127.0.0.1:7373";
  std::optional<uint32_t> context;
  uint32_t sessions = 8;
  uint64_t kv_memory = 0;  // bytes; 0: all sessions at their longest
  uint32_t pass_nodes = 31;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::optional<std::string> isa;
  uint32_t drain_seconds = 30;
  LimitFlags limits;
  OperationFlags operations;
};

// Each with its environment twin.
void AddServerFlags(CLI::App& app, ServerFlags& flags);

// What is wrong with them that can be seen before anything is loaded.
absl::Status CheckServerFlags(const ServerFlags& flags);

}  // namespace outrider
