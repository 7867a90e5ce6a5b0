// The flags that describe a scenario, for every command of `simulate`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/simulator/world/scenario.h"

namespace CLI {
class App;
}

namespace outrider {

// Policies that only the simulator has (Baseline).
inline constexpr const char* kAhead = "ahead";
inline constexpr const char* kAtServer = "server";
inline constexpr const char* kAlone = "alone";

struct ScenarioFlags {
  double rtt_ms = 60;
  double jitter_ms = 0;
  double kilobytes_per_second = 0;  // 0: no limit
  double loss = 0;
  uint32_t handshakes = 0;
  std::string target_time = "cpu:20";  // TimeProfile, as are draft_time and greedy
  std::optional<double> prompt_token_ms;
  double server_draft_ms = 0;  // 0: the server has no draft
  bool one_processor = false;
  bool sizes_passes = false;
  std::string exits = "none";
  double exit_cost = 0;  // per cent
  bool blind = false;    // devices want no hints
  std::string exit_order = "probability";
  std::string hint_order = "newest";
  std::string draft = "good";
  std::string draft_time = "draft:0.6";
  bool clairvoyant = false;
  std::string trace;
  std::string policy = "ours";
  uint32_t gamma = 4;
  std::optional<uint32_t> pass_nodes;
  uint32_t sketch_nodes = 256;
  uint32_t batch_nodes = 8;
  uint32_t batches = 1;
  uint32_t draft_workers = 1;
  bool one_draft_processor = false;
  std::string draft_stalls;
  std::string dry = "adaptive";
  std::string objective = "time";
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

 private:
  absl::Status SetPolicy(Scenario& scenario) const;
};

}  // namespace outrider
