#include "bench/simulator/studies/contenders.h"

#include <utility>

#include "bench/simulator/world/time_profile.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

// A recording may have its own.
bool MayHaveExits(const ScenarioFlags& flags) {
  return !flags.blind && (flags.exits != "none" || !flags.trace.empty());
}

ScenarioFlags WithPolicy(ScenarioFlags flags, const char* policy) {
  flags.policy = policy;
  return flags;
}

ScenarioFlags Chain(ScenarioFlags flags, uint32_t gamma) {
  flags.policy = "chain";
  flags.gamma = gamma;
  flags.exits = "none";
  flags.dry = "wait";
  return flags;
}

ScenarioFlags Fsd(ScenarioFlags flags, uint32_t gamma) {
  flags.policy = "fsd";
  flags.gamma = gamma;
  flags.dry = "wait";
  return flags;
}

ScenarioFlags TargetAlone(ScenarioFlags flags) {
  flags.policy = kAlone;
  flags.trace.clear();
  flags.exits = "none";
  return flags;
}

ScenarioFlags Ahead(ScenarioFlags flags, uint32_t gamma) {
  flags = Chain(std::move(flags), gamma);
  flags.policy = kAhead;
  return flags;
}

// A server that has no draft is given the device's.
ScenarioFlags WithServerDraft(ScenarioFlags flags) {
  if (flags.server_draft_ms > 0) return flags;
  const absl::StatusOr<TimeProfile> time = TimeProfile::Parse(flags.draft_time);
  if (time.ok()) flags.server_draft_ms = ToMilliseconds(time->At(1));
  return flags;
}

// The device at the server, with the server's draft where it has one.
ScenarioFlags OnServer(ScenarioFlags flags) {
  flags.rtt_ms = 0;
  flags.jitter_ms = 0;
  flags.loss = 0;
  flags.kilobytes_per_second = 0;
  if (flags.server_draft_ms > 0) flags.draft_time = Fixed(flags.server_draft_ms, 4);
  flags.server_draft_ms = 0;
  return flags;
}

ScenarioFlags ServersDraft(ScenarioFlags flags) {
  flags = WithPolicy(WithServerDraft(std::move(flags)), kAtServer);
  flags.exits = "none";
  flags.dry = "alone";
  return flags;
}

// Both models at the server.
void AddCoLocated(const ScenarioFlags& flags, std::vector<Contender>& contenders) {
  contenders.push_back({kServersDraft, ServersDraft(flags)});
  for (const uint32_t gamma : {2, 4, 8}) {
    contenders.push_back({Concat("both on the server, ", gamma), Chain(OnServer(flags), gamma)});
  }
  for (const char* policy : {"awaited", kOurs}) {
    contenders.push_back(
        {Concat("both on the server, ", policy), WithPolicy(OnServer(flags), policy)});
  }
}

}  // namespace

std::vector<Contender> ContendersOf(const ScenarioFlags& flags) {
  std::vector<Contender> contenders;
  contenders.push_back({kTargetAlone, TargetAlone(flags)});
  if (!flags.one_processor) AddCoLocated(flags, contenders);
  for (const uint32_t gamma : {2, 4, 6, 8}) {
    contenders.push_back({Concat("chain ", gamma), Chain(flags, gamma)});
  }
  for (const uint32_t gamma : {4, 8}) {
    contenders.push_back({Concat("chain ", gamma, ", drafts on"), Ahead(flags, gamma)});
  }
  for (const char* policy : {"fsd", "llmcad", "edgellm", "lever", "awaited", kOurs, kAuto}) {
    contenders.push_back({policy, WithPolicy(flags, policy)});
  }
  if (MayHaveExits(flags)) {
    ScenarioFlags without = WithPolicy(flags, kOurs);
    without.blind = true;
    contenders.push_back({"ours, no exits", without});
  }
  if (flags.trace.empty()) {
    ScenarioFlags clairvoyant = WithPolicy(flags, kOurs);
    clairvoyant.clairvoyant = true;
    contenders.push_back({"ours, clairvoyant draft", clairvoyant});
  }
  return contenders;
}

std::vector<Contender> AblationsOf(const ScenarioFlags& flags) {
  const ScenarioFlags ours = WithPolicy(flags, kOurs);
  std::vector<Contender> ablations = {{kOurs, ours}};
  ScenarioFlags without_hints = ours;
  without_hints.blind = true;
  ablations.push_back({"without growth in flight", WithPolicy(flags, "awaited")});
  if (MayHaveExits(flags)) {
    ablations.push_back({"without hints", without_hints});
    ablations.push_back({"without either", WithPolicy(without_hints, "awaited")});
  }
  ScenarioFlags single = ours;
  single.batch_nodes = 1;
  ablations.push_back({"without batches of the draft", single});
  ScenarioFlags waiting = ours;
  waiting.dry = "wait";
  ablations.push_back({"without passes at a dry root", waiting});
  ablations.push_back({kAuto, WithPolicy(flags, kAuto)});
  return ablations;
}

std::vector<Contender> FixedWaysOf(const ScenarioFlags& flags) {
  struct Tree {
    const char* policy;
    const char* dry;
  };
  static constexpr Tree kTrees[] = {{kOurs, "wait"},     {kOurs, "alone"},  {kOurs, "adaptive"},
                                    {"awaited", "wait"}, {"lever", "wait"}, {"edgellm", "wait"},
                                    {"llmcad", "wait"}};
  std::vector<Contender> ways = {{kTargetAlone, TargetAlone(flags)}};
  for (const uint32_t gamma : {2, 4, 6, 8}) {
    ways.push_back({Concat("chain ", gamma), Chain(flags, gamma)});
    ways.push_back({Concat("fsd ", gamma), Fsd(flags, gamma)});
  }
  for (const Tree& tree : kTrees) {
    for (const uint32_t nodes : {2, 4, 6, 8, 12, 16, 32}) {
      ScenarioFlags way = WithPolicy(flags, tree.policy);
      way.dry = tree.dry;
      way.pass_nodes = nodes;
      ways.push_back({Concat(tree.policy, ", ", tree.dry, ", ", nodes), std::move(way)});
    }
  }
  return ways;
}

ScenarioFlags Independent(ScenarioFlags flags, const Trace& recording) {
  flags.trace.clear();
  flags.exits = "none";
  std::string draft;
  for (const double right : recording.RightByRank()) {
    // Digits enough that what is rounded up does not make more than one of all of them.
    draft += Concat(draft.empty() ? "" : ",", Fixed(right, 12));
  }
  flags.draft = draft.empty() ? "none" : draft;
  return flags;
}

absl::StatusOr<Figures> Measure(const ScenarioFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<World> world, flags.ToWorld());
  return Measure(*world, flags);
}

absl::StatusOr<Figures> Measure(const World& world, const ScenarioFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const Scenario scenario, flags.ToScenario());
  Simulation simulation(world, scenario);
  if (!simulation.Run()) return absl::DeadlineExceededError("a day has passed, and no end is near");
  return FiguresOf(simulation);
}

}  // namespace outrider
