#include "client/cli/speculation_flags.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/status.h"
#include "common/formats/models/model_file.h"
#include "common/speculation/control/controllers.h"
#include "common/speculation/drafting/lm_drafter.h"
#include "common/speculation/drafting/ngram_drafter.h"
#include "common/speculation/policies/policies.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"
#include "common/tokens/chooser.h"
#include "common/torch/load_engine.h"

namespace outrider {
namespace {

const std::map<std::string, v1::DryPolicy>& DryPolicies() {
  static const auto& policies =
      *new std::map<std::string, v1::DryPolicy>{{"adaptive", v1::DRY_POLICY_ADAPTIVE},
                                                {"wait", v1::DRY_POLICY_WAIT},
                                                {"alone", v1::DRY_POLICY_ALONE}};
  return policies;
}

const std::map<std::string, Objective>& Objectives() {
  static const auto& objectives =
      *new std::map<std::string, Objective>{{"time", Objective::kTime},
                                            {"balanced", Objective::kBalanced},
                                            {"server", Objective::kServer}};
  return objectives;
}

const std::map<std::string, HintBelief>& HintBeliefs() {
  static const auto& beliefs =
      *new std::map<std::string, HintBelief>{{"newest", HintBelief::kNewest},
                                             {"probability", HintBelief::kProbability},
                                             {"arrival", HintBelief::kArrival},
                                             {"random", HintBelief::kRandom}};
  return beliefs;
}

const std::map<std::string, PruningWay>& PruningWays() {
  static const auto& ways = *new std::map<std::string, PruningWay>{
      {"auto", PruningWay::kAuto}, {"on", PruningWay::kOn}, {"off", PruningWay::kOff}};
  return ways;
}

const std::map<std::string, Projection>& Projections() {
  static const auto& projections = *new std::map<std::string, Projection>{
      {"auto", Projection::kAuto}, {"all", Projection::kAll}, {"path", Projection::kPath}};
  return projections;
}

std::string CheckPolicy(const std::string& name) {
  const auto kind = ParsePolicyKind(name);
  return kind.ok() ? std::string() : std::string(Message(kind.status()));
}

std::string CheckDeviceFlag(const std::string& device) {
  return std::string(Message(CheckDevice(device)));
}

// By the command line itself, and not only the environment.
bool IsGiven(const CLI::App& command, const char* flag) {
  const std::vector<CLI::Option*>& given = command.parse_order();
  return std::find(given.begin(), given.end(), command.get_option(flag)) != given.end();
}

}  // namespace

CLI::Validator DeviceName() {
  return CLI::Validator(CheckDeviceFlag, "", "device");
}

void AddSpeculationFlags(CLI::App& command, SpeculationFlags& flags) {
  command
      .add_option("--draft", flags.draft,
                  "What guesses ahead on this machine: a small model of the target's family; or "
                  "ngram, which needs no model and says again what the text has said before")
      ->envname("OUTRIDER_DRAFT");
  command
      .add_option("--draft-device", flags.device,
                  "What computes a draft that is a model: cpu, cuda, torch or torch:cuda, as "
                  "--device")
      ->check(DeviceName())
      ->capture_default_str()
      ->envname("OUTRIDER_DRAFT_DEVICE");
  command
      .add_option("--policy", flags.policy,
                  "How the draft is grown: chain, fsd, llmcad, edgellm, lever, awaited, ours; "
                  "or auto, by what is measured")
      ->check(CheckPolicy)
      ->capture_default_str()
      ->envname("OUTRIDER_POLICY");
  command
      .add_option("--spec-gamma", flags.gamma, "Policies chain and fsd: tokens drafted in a row")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_GAMMA");
  command
      .add_option(
          "--spec-alpha", flags.alpha,
          "Policies llmcad and edgellm: the target verifies when the draft's most confident branch "
          "is less so than this, for good; without it the papers' fallback rule moves it, from "
          "0.01. 0: only when a pass is full")
      ->check(CLI::Range(0.0, 1.0))
      ->envname("OUTRIDER_SPEC_ALPHA");
  command
      .add_option(
          "--spec-pass-nodes", flags.pass_nodes,
          "Drafted tokens that one pass of the target checks, at the most; without it 63, of which "
          "policies auto, ours, awaited and lever use as many as pay, and 16 for all others")
      ->check(CLI::Range(1, 255))
      ->envname("OUTRIDER_SPEC_PASS_NODES");
  command
      .add_option("--spec-sketch-nodes", flags.sketch_nodes,
                  "Drafted tokens that are kept at a time, at the most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_SKETCH_NODES");
  command
      .add_option("--spec-dry", flags.dry,
                  "What the target does when nothing is drafted: wait, go on alone (policy ours), "
                  "or adaptive; policy auto chooses itself")
      ->check(CLI::IsMember({"adaptive", "wait", "alone"}))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_DRY");
  command
      .add_option("--spec-objective", flags.objective,
                  "What policy auto is to save: the time until text comes, the work that a server "
                  "has with it (its target is never told to go on without a draft, and what spares "
                  "it nothing is not drafted), or time where that is worth the work: balanced")
      ->check(CLI::IsMember(Objectives()))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_OBJECTIVE");
  command
      .add_option("--spec-hint-order", flags.hint_order,
                  "Which of the hints that the target's exits give of a pass is drafted for first: "
                  "newest, that of the deepest exit; probability, the most probable as the target "
                  "has it; arrival; random")
      ->check(CLI::IsMember({"newest", "probability", "arrival", "random"}))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_HINT_ORDER");
  command
      .add_option(
          "--exits", flags.exits,
          "Exit heads of a target on this machine, which guess half-way through a pass what "
          "it is coming to; none: without (default: model.exits.gguf beside model.gguf, or "
          "exits.gguf in a directory, if it is there). OUTRIDER_EXITS, which a server goes by "
          "too, is passed over without such a target or without a draft, and so are the twins of "
          "--spec-prune, --spec-projection and --spec-provisional")
      ->envname("OUTRIDER_EXITS");
  command
      .add_option(
          "--spec-prune", flags.pruning,
          "Whether exits of a target on this machine take drafted tokens that look wrong out "
          "of the rest of a pass: on, off, or auto, where that is sooner; the text does not "
          "depend on it")
      ->check(CLI::IsMember(PruningWays()))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_PRUNE");
  command
      .add_option(
          "--spec-projection", flags.projection,
          "Which rows of a pass of a target on this machine its output matrix is asked for: "
          "all, those on the accepted path, or auto, whichever is sooner; the text does not "
          "depend on it")
      ->check(CLI::IsMember(Projections()))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_PROJECTION");
  command
      .add_option(
          "--spec-provisional", flags.provisional,
          "Whether it is drafted on while a pass of a target on this machine waits for flash, for "
          "what may come of that pass: on, or off, by turns; the text does not depend on it")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_PROVISIONAL");
}

void PassOverEnvironment(const CLI::App& command, bool is_target_here, SpeculationFlags& flags) {
  if (is_target_here && !flags.draft.empty()) return;
  const SpeculationFlags without;
  if (!IsGiven(command, "--exits")) flags.exits = without.exits;
  if (!IsGiven(command, "--spec-prune")) flags.pruning = without.pruning;
  if (!IsGiven(command, "--spec-projection")) flags.projection = without.projection;
  if (!IsGiven(command, "--spec-provisional")) flags.provisional = without.provisional;
}

absl::StatusOr<DraftOptions> DraftOf(const SpeculationFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const PolicyKind kind, ParsePolicyKind(flags.policy));
  return DraftOptions{.model = flags.draft,
                      .engine = flags.device,
                      .policy = {.kind = kind, .gamma = flags.gamma, .alpha = flags.alpha},
                      .pass_nodes = flags.pass_nodes.value_or(ChoosesPassSize(kind) ? 63 : 16),
                      .sketch_nodes = flags.sketch_nodes,
                      .dry = DryPolicies().at(flags.dry),
                      .objective = Objectives().at(flags.objective),
                      .hint_belief = HintBeliefs().at(flags.hint_order),
                      .provisional = flags.provisional == "on",
                      .exits = flags.exits,
                      .pruning = PruningWays().at(flags.pruning),
                      .projection = Projections().at(flags.projection)};
}

}  // namespace outrider
