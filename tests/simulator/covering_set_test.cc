// Whatever drafts, guesses, breaks or decides: it costs time, never a token. Every pair of settings
// is tried, each with fifty prompts, greedy and sampled.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/simulator/sources/vocabulary.h"
#include "bench/simulator/world/chance.h"
#include "bench/simulator/world/simulation.h"
#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/simulator/all_pairs.h"

namespace outrider {
namespace {

constexpr size_t kPromptCount = 50;
constexpr uint32_t kReplyTokens = 64;
constexpr double kTemperature = 0.9;

constexpr std::array<std::string_view, 4> kDrafters = {"perfect", "good", "bad", "adversarial"};
constexpr std::array<uint32_t, 4> kPassNodes = {1, 4, 16, 63};
struct NamedExits {
  std::string_view name;
  const char* exits;
};
constexpr std::array<NamedExits, 3> kExits = {
    {{"none", "none"}, {"good", "0.4:0.3,0.7:0.8"}, {"lying", "lying:0.3,0.8"}}};
constexpr std::array kDry = {v1::DRY_POLICY_ADAPTIVE, v1::DRY_POLICY_WAIT, v1::DRY_POLICY_ALONE};
constexpr std::array<std::string_view, 3> kDryNames = {"adaptive", "wait", "alone"};
enum class Way { kClean, kJittery, kDisordered, kCut };
constexpr std::array<std::string_view, 4> kWayNames = {"clean", "jittery", "disordered", "cut"};
constexpr std::array<uint32_t, 2> kSessions = {1, 8};

// One of the set.
struct Combination {
  PolicyKind policy;
  std::string_view drafter;
  uint32_t pass_nodes;
  NamedExits exits;
  size_t dry;
  Way way;
  uint32_t sessions;
  bool sampled;

  std::string Name() const {
    return Concat(PolicyName(policy), "_", drafter, "_", pass_nodes, "_exits_", exits.name, "_",
                  kDryNames[dry], "_", kWayNames[static_cast<size_t>(way)], "_", sessions, "_",
                  sampled ? "sampled" : "greedy");
  }
};

void PrintTo(const Combination& combination, std::ostream* out) {
  *out << combination.Name();
}

std::vector<Combination> CoveringSet() {
  constexpr std::array<size_t, 7> kCounts = {
      kPolicyKinds.size(), kDrafters.size(), kPassNodes.size(), kExits.size(),
      kDry.size(),         kWayNames.size(), kSessions.size()};
  std::vector<Combination> set;
  for (const std::vector<size_t>& row : AllPairs(kCounts)) {
    for (const bool sampled : {false, true}) {
      set.push_back({kPolicyKinds[row[0]], kDrafters[row[1]], kPassNodes[row[2]], kExits[row[3]],
                     row[4], static_cast<Way>(row[5]), kSessions[row[6]], sampled});
    }
  }
  return set;
}

// Its tokens are chosen by the real Chooser, and about one in a hundred ends the reply.
std::unique_ptr<World> WorldOf(const char* exits) {
  absl::StatusOr<std::unique_ptr<World>> world =
      World::Create({.sampled = true, .exits = exits, .seed = 7});
  EXPECT_TRUE(world.ok()) << world.status();
  return *std::move(world);
}

// From one token to some hundred.
std::vector<std::vector<TokenId>> Prompts(const World& world) {
  std::vector<std::vector<TokenId>> prompts(kPromptCount);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Draw draw(11, i);
    prompts[i].resize(i == 0 ? 1 : 1 + draw.Below(150));
    for (TokenId& token : prompts[i]) {
      const auto words = static_cast<uint64_t>(world.text().vocabulary_size()) - kVocabularyEnd - 1;
      token = kVocabularyEnd + 1 + static_cast<TokenId>(draw.Below(words));
    }
  }
  return prompts;
}

LinkShape ShapeOf(Way way) {
  LinkShape shape;
  shape.delay = Milliseconds(30);
  if (way == Way::kJittery) shape.jitter = Milliseconds(15);
  if (way == Way::kDisordered) {  // packets would overtake one another at every step, and wait
    shape.jitter = Milliseconds(90);
    shape.loss = 0.1;
  }
  return shape;
}

Scenario ScenarioOf(const Combination& combination) {
  Scenario scenario;
  scenario.link = ShapeOf(combination.way);
  scenario.pass_time = *TimeProfile::Parse("1:12,16:15,64:30");
  scenario.prompt_token_time = Milliseconds(0.2);
  scenario.skill = *DraftSkill::Parse(combination.drafter);
  scenario.policy.kind = combination.policy;
  scenario.sketch.pass_node_count_max = combination.pass_nodes;
  scenario.dry_policy = kDry[combination.dry];
  scenario.session_count = combination.sessions;
  scenario.max_tokens = kReplyTokens;
  if (combination.sampled) scenario.sampling = {.temperature = kTemperature, .top_p = 0.95};
  return scenario;
}

// Three connections of every device break in the middle of some message, up or down.
std::optional<Cut> CutOf(uint64_t seed, size_t device, uint32_t dial) {
  if (dial >= 3) return std::nullopt;
  Draw draw(seed, static_cast<uint64_t>(device) << 8 | dial);
  const End from = draw.Happens(0.5) ? End::kDevice : End::kServer;
  return Cut{from, draw.Below(400)};
}

// What the target writes when nobody helps it: a token, and the next one.
std::vector<TokenId> WrittenAlone(const World& world, const SamplingOptions& sampling,
                                  std::span<const TokenId> prompt) {
  const int32_t vocabulary_size = world.text().vocabulary_size();
  const Chooser chooser = *Chooser::Create(sampling, vocabulary_size);
  std::vector<TokenId> all(prompt.begin(), prompt.end());
  while (all.size() < prompt.size() + kReplyTokens) {
    TokenHistory history({.vocabulary_size = vocabulary_size, .capacity = all.size()});
    EXPECT_TRUE(history.Append(all).ok());
    all.push_back(world.text().After(RootOf(history), chooser));
    if (all.back() == kVocabularyEnd) break;
  }
  return all;
}

class CoveringSetTest : public testing::TestWithParam<Combination> {};

TEST_P(CoveringSetTest, WritesWhatTheTargetWritesAlone) {
  const Combination& combination = GetParam();
  const std::unique_ptr<World> world = WorldOf(combination.exits.exits);
  const std::vector<std::vector<TokenId>> prompts = Prompts(*world);
  Scenario scenario = ScenarioOf(combination);
  uint64_t accepted = 0;
  uint64_t attachments = 0;
  uint64_t hints_right = 0;
  for (size_t first = 0; first < prompts.size(); first += combination.sessions) {
    scenario.prompts.clear();
    for (size_t i = first; i < first + combination.sessions; ++i) {
      scenario.prompts.push_back(prompts[i % prompts.size()]);
    }
    scenario.seed = first;
    Simulation simulation(*world, scenario);
    if (combination.way == Way::kCut) {
      simulation.SetCuts(
          [&](size_t device, uint32_t dial) { return CutOf(scenario.seed, device, dial); });
    }
    ASSERT_TRUE(simulation.Run()) << "prompt " << first << ": no end";
    for (size_t i = 0; i < combination.sessions; ++i) {
      SCOPED_TRACE(Concat("prompt ", (first + i) % prompts.size()));
      const SimulatedDevice& device = simulation.device(i);
      ASSERT_FALSE(device.end() && !device.end()->ok()) << *device.end();
      SamplingOptions sampling = scenario.sampling;
      sampling.seed += i;  // every session samples in its own way
      const std::vector<TokenId> alone = WrittenAlone(*world, sampling, scenario.prompts[i]);
      const auto reply = std::span(alone).subspan(scenario.prompts[i].size());
      ASSERT_TRUE(std::ranges::equal(device.session().committed(), alone));
      ASSERT_TRUE(std::ranges::equal(device.shown(), reply));
      accepted += device.session().stats().nodes_accepted;
      attachments += device.session().stats().attachments;
      hints_right += device.session().stats().hints_right;
    }
  }
  // What was to be tried was tried.
  if (combination.way == Way::kCut) {
    EXPECT_GT(attachments, 3 * prompts.size() / 2);
  }
  if (combination.drafter == "adversarial" && combination.exits.name != "good") {
    EXPECT_EQ(accepted, 0u);
  }
  if (combination.exits.name != "good") {
    EXPECT_EQ(hints_right, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, CoveringSetTest, testing::ValuesIn(CoveringSet()),
                         [](const auto& test) { return test.param.Name(); });

// --- an adversary that nobody listens to would be none ---

SessionStats StatsOf(PolicyKind policy, std::string_view drafter, const char* exits) {
  const std::unique_ptr<World> world = WorldOf(exits);
  Scenario scenario = ScenarioOf({.policy = policy,
                                  .drafter = drafter,
                                  .pass_nodes = 16,
                                  .exits = {},
                                  .dry = 1,
                                  .way = Way::kClean,
                                  .sessions = 1,
                                  .sampled = false});
  scenario.max_tokens = 500;
  scenario.ends_at_end_token = false;
  Simulation simulation(*world, scenario);
  EXPECT_TRUE(simulation.Run());
  return simulation.device(0).session().stats();
}

TEST(Misled, TheTargetRunsOverWhatAnAdversaryDraftsAndTakesNothingOfIt) {
  for (const PolicyKind policy : kPolicyKinds) {
    SCOPED_TRACE(PolicyName(policy));
    if (policy == PolicyKind::kAuto) continue;  // it may choose to draft nothing here
    const SessionStats good = StatsOf(policy, "good", "none");
    const SessionStats adversarial = StatsOf(policy, "adversarial", "none");
    EXPECT_GT(good.nodes_accepted, 200u);
    // LEVER learns what such a draft is worth, and stops.
    EXPECT_GT(adversarial.nodes_passed, policy == PolicyKind::kLever ? 10u : 400u);
    EXPECT_EQ(adversarial.nodes_accepted, 0u);
  }
}

TEST(Misled, ALyingExitIsHeardAndNeverRight) {
  for (const PolicyKind policy : kPolicyKinds) {
    SCOPED_TRACE(PolicyName(policy));
    const SessionStats honest = StatsOf(policy, "good", "0.3:0.8,0.8:0.9");
    const SessionStats lying = StatsOf(policy, "good", "lying:0.3,0.8");
    // Auto hears none where it drafts nothing, or where they have been of no use.
    const uint64_t rare = policy == PolicyKind::kAuto ? 8 : 2;
    EXPECT_GT(honest.hints_right, honest.passes / rare);
    EXPECT_GT(lying.hints, lying.passes / rare);
    EXPECT_EQ(lying.hints_right, 0u);
  }
}

}  // namespace
}  // namespace outrider
