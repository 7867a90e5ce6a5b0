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

// What auto could have kept to from the first token to the last: the target alone; chains, and those of
// fsd, of 2, 4, 6 and 8; trees of every policy with 2 to 32 nodes a pass, ours with a target that waits at
// a dry root, goes on, or adapts.
std::vector<Contender> FixedWaysOf(const ScenarioFlags& flags);

// Without its recording, whose draft is right in stretches: with one that is right at each rank as often,
// at one place as at the next, and without exits.
ScenarioFlags Independent(ScenarioFlags flags, const Trace& recording);

inline constexpr const char* kTargetAlone = "target alone";
inline constexpr const char* kServersDraft = "the server's draft";
inline constexpr const char* kOurs = "ours";
inline constexpr const char* kAuto = "auto";

// Runs it, in the world that its flags describe or in one that was made from others of the same text.
absl::StatusOr<Figures> Measure(const ScenarioFlags& flags);
absl::StatusOr<Figures> Measure(const World& world, const ScenarioFlags& flags);

}  // namespace outrider
