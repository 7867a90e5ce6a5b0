#include "bench/simulator/studies/regret.h"

#include <array>
#include <cmath>
#include <memory>

#include "bench/simulator/studies/lossless.h"
#include "bench/simulator/world/chance.h"
#include "bench/simulator/world/simulation.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kVerdictsBefore = 20;
constexpr double kWorseAcceptance = 0.5;
constexpr uint64_t kPointSeed = 1;

struct Choice {
  std::string_view name;
  PolicyOptions policy;
  v1::DryPolicy dry;
  bool drafts = true;
};

constexpr std::array<Choice, 7> kFixed = {{
    {"ours, waits", {PolicyKind::kOurs}, v1::DRY_POLICY_WAIT},
    {"ours, goes on", {PolicyKind::kOurs}, v1::DRY_POLICY_ALONE},
    {"ours, adaptive", {PolicyKind::kOurs}, v1::DRY_POLICY_ADAPTIVE},
    {"awaited", {PolicyKind::kAwaited}, v1::DRY_POLICY_WAIT},
    {"lever", {PolicyKind::kLever}, v1::DRY_POLICY_WAIT},
    {"chain 8", {PolicyKind::kChain, 8}, v1::DRY_POLICY_WAIT},
    {"target alone", {PolicyKind::kChain}, v1::DRY_POLICY_ALONE, /*drafts=*/false},
}};
constexpr Choice kControlled = {"auto", {PolicyKind::kAuto}, v1::DRY_POLICY_ADAPTIVE};

DraftSkill SkillOf(double acceptance) {
  return *DraftSkill::Parse(SkillLikeGood(acceptance));
}

std::optional<Change> ChangeOf(Shift shift, uint32_t after_tokens) {
  switch (shift) {
    case Shift::kNone:
      return std::nullopt;
    case Shift::kRoundTripThreefold:
      return Change{.after_tokens = after_tokens, .link_delay = 3};
    case Shift::kPassThreefold:
      return Change{.after_tokens = after_tokens, .pass_time = 3};
    case Shift::kDraftWorse:
      return Change{.after_tokens = after_tokens, .skill = SkillOf(kWorseAcceptance)};
  }
  OUTRIDER_CHECK(false, "every shift changes something, or nothing");
}

Scenario ScenarioOf(const Conditions& met, Shift shift, uint32_t token_count) {
  Scenario scenario;
  scenario.link.delay = Milliseconds(met.round_trip_ms / 2);
  scenario.pass_time = TimeProfile::Constant(Milliseconds(met.pass_ms));
  scenario.draft_time = TimeProfile::Constant(Milliseconds(met.draft_ms));
  scenario.skill = SkillOf(met.acceptance);
  scenario.max_tokens = token_count;
  scenario.change = ChangeOf(shift, token_count / 2);
  return scenario;
}

// From so many verdicts after the one that showed token number `token`, to the end.
double TokenMsAfter(const SimulatedDevice& device, size_t token) {
  const std::span<const SimulatedDevice::Arrival> arrivals = device.arrivals();
  size_t begin = 0;
  for (size_t shown = 0; begin < arrivals.size() && shown < token; ++begin) {
    shown += arrivals[begin].count;
  }
  begin += kVerdictsBefore;
  OUTRIDER_CHECK(begin + 1 < arrivals.size(), "the reply is long enough to measure");
  uint64_t count = 0;
  for (const SimulatedDevice::Arrival& arrival : arrivals.subspan(begin + 1))
    count += arrival.count;
  return ToMilliseconds(arrivals.back().at - arrivals[begin].at) / static_cast<double>(count);
}

absl::StatusOr<double> TokenMs(const World& world, Scenario scenario, const Choice& choice) {
  scenario.policy = choice.policy;
  scenario.dry_policy = choice.dry;
  // What it chooses itself it is not bounded in.
  if (choice.policy.kind == PolicyKind::kAuto) scenario.sketch.pass_node_count_max = 63;
  if (!choice.drafts) {
    scenario.skill = *DraftSkill::Parse("none");
    if (scenario.change) scenario.change->skill.reset();
  }
  Simulation simulation(world, scenario);
  if (!simulation.Run()) return absl::DeadlineExceededError("a day has passed, and no end is near");
  OUTRIDER_RETURN_IF_ERROR(CheckTexts(simulation));
  return TokenMsAfter(simulation.device(0), scenario.change ? scenario.change->after_tokens : 0);
}

}  // namespace

// Even in the logarithm, but for chances: between 1 and 2 ms lies as much as between 50 and 100.
std::vector<Conditions> RandomConditions(uint32_t count) {
  std::vector<Conditions> points;
  for (uint32_t i = 0; i < count; ++i) {
    Draw draw(kPointSeed, i);
    const auto between = [&](double least, double most) {
      return least * std::pow(most / least, draw.Uniform());
    };
    Conditions met;
    met.round_trip_ms = between(1, 301) - 1;
    met.pass_ms = between(5, 100);
    met.draft_ms = between(1, 10);
    met.acceptance = 0.5 + 0.45 * draw.Uniform();
    points.push_back(met);
  }
  return points;
}

std::string_view NameOf(Shift shift) {
  switch (shift) {
    case Shift::kNone:
      return "nothing changes";
    case Shift::kRoundTripThreefold:
      return "round trip x 3";
    case Shift::kPassThreefold:
      return "pass x 3";
    case Shift::kDraftWorse:
      return "right 0.5";
  }
  OUTRIDER_CHECK(false, "every shift has a name");
}

absl::StatusOr<Regret> RegretAt(const Conditions& met, Shift shift, uint32_t token_count) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<World> world, World::Create({}));
  const Scenario scenario = ScenarioOf(met, shift, token_count);
  Regret regret;
  for (const Choice& choice : kFixed) {
    OUTRIDER_ASSIGN_OR_RETURN(const double ms, TokenMs(*world, scenario, choice));
    if (regret.best_ms == 0 || ms < regret.best_ms) {
      regret.best_ms = ms;
      regret.best = choice.name;
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(regret.controlled_ms, TokenMs(*world, scenario, kControlled));
  return regret;
}

absl::StatusOr<Regret> SettledRegretAt(const Conditions& met, Shift shift, uint32_t token_count,
                                       double bound) {
  OUTRIDER_ASSIGN_OR_RETURN(const Regret first, RegretAt(met, shift, token_count));
  if (first.value() <= bound) return first;
  OUTRIDER_ASSIGN_OR_RETURN(Regret settled, RegretAt(met, shift, kLonger * token_count));
  settled.at_first = first.value();
  return settled;
}

}  // namespace outrider
