// The flags that describe a scenario, for every command of `simulate`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/simulator/world/scenario.h"

namespace CLI {
class App;
}

namespace outrider {

struct ScenarioFlags {
  double rtt_ms = 60;
  double jitter_ms = 0;
  double kilobytes_per_second = 0;  // 0: no limit
  double loss = 0;
  uint32_t handshakes = 0;
  std::string target_ms = "20";
  double prompt_token_ms = 0;
  double server_draft_ms = 0;  // 0: the server has no draft
  std::string exits = "none";
  std::string draft = "good";
  std::string draft_ms = "8";
  bool clairvoyant = false;
  std::string trace;
  std::string policy = "ours";
  uint32_t gamma = 4;
  uint32_t pass_nodes = 16;
  uint32_t sketch_nodes = 256;
  uint32_t batch_nodes = 8;
  uint32_t batches = 1;
  std::string dry = "adaptive";
  uint32_t sessions = 1;
  std::string keys;
  std::string greedy;
  double stagger_ms = 0;
  uint32_t tokens = 1000;
  double temperature = 0;
  uint64_t seed = 1;

  void AddTo(CLI::App& command);

  // InvalidArgument naming the flag.
  absl::StatusOr<Scenario> ToScenario() const;
  absl::StatusOr<std::unique_ptr<World>> ToWorld() const;
};

}  // namespace outrider
