// What calibrate-exits and evaluate-exits have in common: a target with its exits and a draft, and
// text to begin replies with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "adapters/calibration/rehearsal.h"

namespace CLI {
class App;
}

namespace outrider {

struct RehearsalFlags {
  Rehearsal::Files files;
  std::vector<std::string> texts;
  size_t passes = 4000;  // of each mode
  double temperature = 0.8;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
};

void AddRehearsalFlags(CLI::App& command, RehearsalFlags& flags);

struct Rehearsed {
  std::unique_ptr<Rehearsal> rehearsal;
  GuessLog greedy;
  GuessLog sampled;
};

// Passes of both modes over replies to the texts. InvalidArgument when fewer than `pass_count_min`
// are asked for, or the texts give fewer, with both numbers.
absl::StatusOr<Rehearsed> Rehearse(const RehearsalFlags& flags, size_t pass_count_min);

}  // namespace outrider
