#include "bench/simulator/cli/scenario_flags.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/parse.h"
#include "common/base/program.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kGreedyNodes = 63;

absl::StatusOr<v1::DryPolicy> ParseDry(const std::string& name) {
  if (name == "adaptive") return v1::DRY_POLICY_ADAPTIVE;
  if (name == "wait") return v1::DRY_POLICY_WAIT;
  if (name == "alone") return v1::DRY_POLICY_ALONE;
  return InvalidArgument("'", name, "' is none of adaptive, wait, alone");
}

absl::StatusOr<Objective> ParseObjective(const std::string& name) {
  if (name == "time") return Objective::kTime;
  if (name == "balanced") return Objective::kBalanced;
  if (name == "server") return Objective::kServer;
  return InvalidArgument("--objective ", name, ": there are time, balanced and server");
}

absl::StatusOr<HintOrder> ParseExitOrder(const std::string& name) {
  if (name == "probability") return HintOrder::kProbability;
  if (name == "softmax") return HintOrder::kSoftmax;
  if (name == "arrival") return HintOrder::kArrival;
  if (name == "random") return HintOrder::kRandom;
  return InvalidArgument("--exit-order ", name,
                         ": there are probability, softmax, arrival and random");
}

absl::StatusOr<HintBelief> ParseHintOrder(const std::string& name) {
  if (name == "newest") return HintBelief::kNewest;
  if (name == "probability") return HintBelief::kProbability;
  if (name == "arrival") return HintBelief::kArrival;
  if (name == "random") return HintBelief::kRandom;
  return InvalidArgument("--hint-order ", name,
                         ": there are newest, probability, arrival and random");
}

absl::StatusOr<std::vector<uint32_t>> ParseKeys(const std::string& text, uint32_t sessions) {
  std::vector<uint32_t> counts;
  if (text.empty()) return counts;
  double sum = 0;
  for (const std::string_view part : SplitAt(text, ',')) {
    const double count = ParseNumber(part).value_or(0);
    const bool is_count = count >= 1 && count <= sessions && count == std::floor(count);
    counts.push_back(is_count ? static_cast<uint32_t>(count) : 0);
    sum += is_count ? count : sessions + 1.0;
  }
  if (sum != sessions) {
    return InvalidArgument("--keys: '", text, "' does not say how many of ", sessions,
                           " sessions are the first key's, the next one's, and so on, as in 1,7");
  }
  return counts;
}

// Empty: none.
absl::StatusOr<Stalls> ParseStalls(std::string_view text) {
  if (text.empty()) return Stalls{};
  const std::vector<std::string_view> parts = SplitAt(text, ':');
  const auto number = [&](size_t i) { return ParseNumber(parts[i]).value_or(-1); };
  if (parts.size() != 2 || number(0) < 0 || !(number(1) > number(0))) {
    return InvalidArgument("--draft-stalls: '", text, "' is no LENGTH:EVERY, as in 100:1500");
  }
  return Stalls{.length = Milliseconds(number(0)), .every = Milliseconds(number(1))};
}

}  // namespace

void ScenarioFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* group, const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(group)->capture_default_str();
  };
  constexpr const char* kLink = "Link";
  add(kLink, "--rtt", rtt_ms, "Round trip, ms")->check(CLI::NonNegativeNumber);
  add(kLink, "--jitter", jitter_ms, "Mean extra delay of a packet, ms; order is kept")
      ->check(CLI::NonNegativeNumber);
  add(kLink, "--rate", kilobytes_per_second, "kB/s each way; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  add(kLink, "--loss", loss, "Share of packets lost; each comes again later")
      ->check(CLI::Range(0.0, 0.9));
  add(kLink, "--handshakes", handshakes, "Round trips before a connection carries a byte");
  constexpr const char* kTarget = "Target";
  add(kTarget, "--target", target_time,
      "Time of a pass: cpu:MS or gpu:MS, measured shapes in which one row takes MS; ROWS:MS,.. as "
      "in "
      "1:17.9,8:30.7; MS, flat");
  command
      .add_option(
          "--prompt-token", prompt_token_ms,
          "Time of a prompt's token, ms, besides that of a pass; it is a row like others if "
          "nothing is said")
      ->group(kTarget)
      ->check(CLI::NonNegativeNumber);
  command
      .add_flag("--one-processor", one_processor,
                "Draft and target take turns on one, in one process; there is no link")
      ->group(kTarget);
  add(kTarget, "--server-draft-time", server_draft_ms,
      "Of a token of the server's own draft, ms, to which policy auto may leave drafting; 0: none")
      ->check(CLI::NonNegativeNumber);
  add(kTarget, "--exits", exits,
      "Early exits: DEPTH:MATCH,.. as in 0.5:0.4,0.75:0.7; lying:DEPTH,..; none");
  add(kTarget, "--exit-cost", exit_cost,
      "Of a pass's time, in per cent, that every exit adds to those that are guessed; 0.5 is "
      "measured")
      ->check(CLI::Range(0.0, 100.0));
  add(kTarget, "--exit-order", exit_order,
      "Which of the hints that wait for the link goes first, as outrider-server has it: "
      "probability, softmax, arrival, random");
  add(kTarget, "--dry", dry, "At a root without children: adaptive, wait, alone");
  constexpr const char* kDraft = "Draft";
  add(kDraft, "--draft", draft,
      "How often the target's choice has each rank: 0.7,0.12,.. (SHARE@.. ;SHARE@.. for easy and "
      "hard places), or perfect, good, bad, adversarial, none");
  add(kDraft, "--draft-time", draft_time,
      "Time of a batch: draft:MS, measured, one node takes MS; NODES:MS,..; MS, flat");
  add(kDraft, "--trace", trace,
      "Recorded tokens, drafts and exits instead (bench/simulator/sources/trace.h)");
  add(kDraft, "--draft-workers", draft_workers,
      "Batches that are drafted at a time, each as fast as one alone; --in-flight has them wait "
      "for "
      "one another")
      ->check(CLI::Range(1, 10));
  command
      .add_flag("--one-draft-processor", one_draft_processor,
                "All devices draft on one processor, a batch after the other")
      ->group(kDraft);
  add(kDraft, "--draft-stalls", draft_stalls,
      "LENGTH:EVERY, ms: that processor stands still for so long of every so long");
  command.add_flag("--clairvoyant", clairvoyant, "The draft knows where it is right: the bound")
      ->group(kDraft);
  constexpr const char* kPolicy = "Policy";
  add(kPolicy, "--policy", policy,
      "chain, fsd, llmcad, edgellm, lever, awaited, ours, auto; baselines: ahead (a chain that "
      "drafts "
      "on while it waits), server (drafting is left to the server), alone (nothing is drafted)");
  add(kPolicy, "--hint-order", hint_order,
      "Which of the hints that have come is drafted for first, as --spec-hint-order of outrider: "
      "newest, probability, arrival, random");
  command.add_flag("--blind", blind, "The device wants no hints, and nothing is guessed for it")
      ->group(kPolicy);
  add(kPolicy, "--objective", objective,
      "What policy auto is to save: time, server (its work), or balanced");
  add(kPolicy, "--gamma", gamma, "Tokens in a row, of chain and fsd");
  command
      .add_option(
          "--nodes", pass_nodes,
          "Drafted nodes of a pass (R); 16. Policy auto chooses how many, up to so many; 63")
      ->group(kPolicy);
  command
      .add_flag("--sized", sizes_passes,
                "Policies that choose R in programs (ours, awaited, lever) do here, up to 63")
      ->group(kPolicy);
  add(kPolicy, "--sketch", sketch_nodes, "Drafted nodes altogether");
  add(kPolicy, "--batch", batch_nodes, "Nodes the draft runs at once");
  add(kPolicy, "--in-flight", batches, "Batches that the draft is asked for at a time");
  constexpr const char* kSessions = "Sessions";
  add(kSessions, "--sessions", sessions, "Devices of one server")->check(AboveZero());
  add(kSessions, "--keys", keys,
      "Whose they are: so many of the first key, so many of the next, as in 1,7; each its own");
  add(kSessions, "--greedy", greedy,
      "The first one wants 63 nodes a pass, and its batches take so long");
  add(kSessions, "--stagger", stagger_ms, "From one's start to the next one's, ms");
  add(kSessions, "--tokens", tokens, "Tokens of a reply")->check(AboveZero());
  add(kSessions, "--temperature", temperature,
      "Above 0: sampled by the real Chooser, from made-up logits of a small vocabulary");
  add(kSessions, "--seed", seed, "Of all chance");
}

absl::StatusOr<Scenario> ScenarioFlags::ToScenario() const {
  Scenario scenario;
  scenario.link.delay = Milliseconds(rtt_ms / 2);
  scenario.link.jitter = Milliseconds(jitter_ms);
  if (kilobytes_per_second > 0) scenario.link.bytes_per_second = kilobytes_per_second * 1000;
  scenario.link.loss = loss;
  scenario.link.handshakes = handshakes;
  OUTRIDER_ASSIGN_OR_RETURN(scenario.pass_time, TimeProfile::Parse(target_time));
  if (prompt_token_ms) scenario.prompt_token_time = Milliseconds(*prompt_token_ms);
  scenario.one_processor = one_processor;
  if (server_draft_ms > 0) scenario.server_draft_time = Milliseconds(server_draft_ms);
  OUTRIDER_ASSIGN_OR_RETURN(scenario.skill, DraftSkill::Parse(draft));
  if (clairvoyant) scenario.skill = scenario.skill.Clairvoyant();
  OUTRIDER_ASSIGN_OR_RETURN(scenario.draft_time, TimeProfile::Parse(draft_time));
  OUTRIDER_ASSIGN_OR_RETURN(scenario.dry_policy, ParseDry(dry));
  OUTRIDER_RETURN_IF_ERROR(SetPolicy(scenario));
  scenario.policy.gamma = gamma;
  scenario.sizes_passes = sizes_passes;
  const bool chooses = sizes_passes || scenario.policy.kind == PolicyKind::kAuto;
  scenario.sketch.pass_node_count_max = pass_nodes.value_or(chooses ? 63 : 16);
  scenario.sketch.node_count_max = sketch_nodes;
  scenario.sketch.batch_node_count_max = batch_nodes;
  if (batches == 0) return InvalidArgument("--in-flight 0: the draft would be asked for nothing");
  scenario.sketch.batch_count_max = std::max(batches, draft_workers);
  scenario.draft_workers = draft_workers;
  OUTRIDER_ASSIGN_OR_RETURN(const Stalls stalls, ParseStalls(draft_stalls));
  if (one_draft_processor) scenario.one_draft_processor = stalls;
  if (stalls.length > Duration::zero() && !one_draft_processor) {
    return InvalidArgument("--draft-stalls goes with --one-draft-processor, which stands still");
  }
  scenario.exit_share = exit_cost / 100;
  scenario.hints = !blind;
  OUTRIDER_ASSIGN_OR_RETURN(scenario.hint_order, ParseExitOrder(exit_order));
  OUTRIDER_ASSIGN_OR_RETURN(scenario.sketch.hint_belief, ParseHintOrder(hint_order));
  OUTRIDER_ASSIGN_OR_RETURN(scenario.objective, ParseObjective(objective));
  scenario.session_count = sessions;
  OUTRIDER_ASSIGN_OR_RETURN(scenario.sessions_of_key, ParseKeys(keys, sessions));
  if (!greedy.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(TimeProfile batch_time, TimeProfile::Parse(greedy));
    scenario.greed = {kGreedyNodes, std::move(batch_time)};
  }
  scenario.stagger = Milliseconds(stagger_ms);
  scenario.max_tokens = tokens;
  scenario.sampling.temperature = temperature;
  scenario.seed = seed;
  return scenario;
}

absl::Status ScenarioFlags::SetPolicy(Scenario& scenario) const {
  if (policy == kAhead) {
    scenario.policy.kind = PolicyKind::kChain;
    scenario.baseline = Baseline::kAhead;
    return absl::OkStatus();
  }
  if (policy == kAlone) {
    scenario.policy.kind = PolicyKind::kChain;
    scenario.baseline = Baseline::kAlone;
    scenario.dry_policy = v1::DRY_POLICY_ALONE;
    return absl::OkStatus();
  }
  if (policy == kAtServer) {
    if (server_draft_ms <= 0) {
      return InvalidArgument("--policy server: the server has no draft; give it one, with ",
                             "--server-draft-time");
    }
    scenario.policy.kind = PolicyKind::kChain;
    scenario.baseline = Baseline::kAtServer;
    return absl::OkStatus();
  }
  OUTRIDER_ASSIGN_OR_RETURN(scenario.policy.kind, ParsePolicyKind(policy));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<World>> ScenarioFlags::ToWorld() const {
  return World::Create(
      {.sampled = temperature > 0, .exits = exits, .trace_path = trace, .seed = seed});
}

}  // namespace outrider
