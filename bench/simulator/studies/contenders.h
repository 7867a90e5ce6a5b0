// Ways to decode that are compared with one another, each as a change to the same scenario.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulator/cli/scenario_flags.h"
#include "bench/simulator/studies/figures.h"

namespace outrider {

struct Contender {
  std::string name;
  ScenarioFlags flags;
};

// The baselines of ARCHITECTURE.md ("How it is measured"), every policy, ours, and ours with a draft
// that knows where it is right. All with the link, target, draft, exits and sessions of `flags`.
std::vector<Contender> ContendersOf(const ScenarioFlags& flags);

// Ours, and ours without this or that: what is owed to whom.
std::vector<Contender> AblationsOf(const ScenarioFlags& flags);

inline constexpr const char* kOurs = "ours";

// Runs it.
absl::StatusOr<Figures> Measure(const ScenarioFlags& flags);

}  // namespace outrider
