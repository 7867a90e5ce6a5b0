// The flags of a draft, and what they ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/device/device.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace outrider {

struct SpeculationFlags {
  std::string draft;           // empty: none; kNgramDraft; or a model
  std::string device = "cpu";  // that computes it
  std::string policy = "auto";
  uint32_t gamma = 4;
  std::optional<double> alpha;         // nothing: the fallback rule moves it
  std::optional<uint32_t> pass_nodes;  // nothing: as many as the policy is given (DraftOf)
  uint32_t sketch_nodes = 256;
  std::string dry = "adaptive";
  std::string objective = "time";
  std::string hint_order = "newest";
  std::string exits;
  std::string pruning = "auto";
  std::string projection = "auto";
  std::string provisional = "on";
};

// Of the devices that engines compute on (torch/load_engine.h).
CLI::Validator DeviceName();

// Without a draft the other flags mean nothing.
void AddSpeculationFlags(CLI::App& command, SpeculationFlags& flags);

// Once they are parsed: what the environment alone says of exits and passes is for commands with a
// target here and a draft, and none of the others fails by it.
void PassOverEnvironment(const CLI::App& command, bool is_target_here, SpeculationFlags& flags);

// What they ask for. InvalidArgument when there is no such policy.
absl::StatusOr<DraftOptions> DraftOf(const SpeculationFlags& flags);

}  // namespace outrider
