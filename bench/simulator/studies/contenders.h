// Ways to decode that are compared with one another, each as a change to the same scenario.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulator/cli/scenario_flags.h"
#include "bench/simulator/sources/trace.h"
#include "bench/simulator/studies/figures.h"

namespace outrider {

struct Contender {
  std::string name;
  ScenarioFlags flags;
};

// The target alone; both models at the server, where the server drafts or the device stands there,
// with chains and trees; chains, those that draft on among them; every policy, `auto` as users get
// it, and ours with a draft that knows where it is right, unless it is recorded. All with the link,
// target, draft, exits and sessions of `flags`. A server that has no draft is given the device's where
// it needs one. In one process there is no server.
std::vector<Contender> ContendersOf(const ScenarioFlags& flags);

// Ours, and ours without this or that: what is owed to whom; and auto.
std::vector<Contender> AblationsOf(const ScenarioFlags& flags);

// Without its recording, whose draft is right in stretches: with one that is right at each rank as often,
// at one place as at the next, and without exits.
ScenarioFlags Independent(ScenarioFlags flags, const Trace& recording);

inline constexpr const char* kTargetAlone = "target alone";
inline constexpr const char* kServersDraft = "the server's draft";
inline constexpr const char* kOurs = "ours";
inline constexpr const char* kAuto = "auto";

// Runs it.
absl::StatusOr<Figures> Measure(const ScenarioFlags& flags);

}  // namespace outrider
