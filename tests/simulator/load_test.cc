// Many sessions at one target: drafting must not cost them more than it brings.
#include <memory>
#include <string_view>

#include "bench/simulator/studies/figures.h"
#include "bench/simulator/studies/lossless.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

Figures With(uint32_t session_count, std::string_view pass_time, PolicyKind policy,
             std::string_view skill, uint32_t token_count = 1000) {
  const std::unique_ptr<World> world = *World::Create({.vocabulary_size = 1000, .seed = 1});
  Scenario scenario;
  scenario.pass_time = *TimeProfile::Parse(pass_time);
  scenario.policy.kind = policy;
  scenario.skill = *DraftSkill::Parse(skill);
  scenario.session_count = session_count;
  scenario.max_tokens = token_count;
  if (policy == PolicyKind::kAuto) scenario.sketch.pass_node_count_max = 63;
  if (skill == "none") scenario.dry_policy = v1::DRY_POLICY_ALONE;
  Simulation simulation(*world, scenario);
  EXPECT_TRUE(simulation.Run());
  EXPECT_TRUE(CheckTexts(simulation).ok()) << CheckTexts(simulation);
  return FiguresOf(simulation);
}

// As two cores have it: 24 rows cost as much as three runs of one.
TEST(Load, WhereRowsAreDearManySessionsDraftNextToNothing) {
  const Figures alone = With(24, "cpu:20", PolicyKind::kOurs, "none");
  for (const PolicyKind policy : {PolicyKind::kOurs, PolicyKind::kAuto}) {
    const Figures drafted = With(24, "cpu:20", policy, "good");
    EXPECT_LT(drafted.token_ms, 1.1 * alone.token_ms) << PolicyName(policy);
    EXPECT_LT(drafted.rows_per_token, 1.1) << PolicyName(policy);
  }
}

TEST(Load, WhereRowsAreCheapDraftingGainsForAll) {
  const Figures alone = With(24, "gpu:20", PolicyKind::kOurs, "none");
  const Figures drafted = With(24, "gpu:20", PolicyKind::kAuto, "good");
  EXPECT_LT(drafted.token_ms, 0.9 * alone.token_ms);
}

TEST(Load, FewSessionsDraftWhatPaysForAll) {
  const Figures alone = With(4, "cpu:20", PolicyKind::kOurs, "none");
  const Figures drafted = With(4, "cpu:20", PolicyKind::kAuto, "good");
  EXPECT_LT(drafted.token_ms, 0.9 * alone.token_ms);
}

// A draft that is sure of what is never right gets rows until that is known, and then next to none.
TEST(Load, WhoPromisesWhatNeverComesGetsNoRowsForIt) {
  const Figures drafted = With(8, "cpu:20", PolicyKind::kOurs, "adversarial", 2000);
  EXPECT_LT(drafted.rows_per_token, 1.4);
}

// --- by a second of the target's time ---

// Devices with a processor each, and a small draft.
Scenario OfTheirOwn() {
  Scenario devices;
  devices.draft_time = *TimeProfile::Parse("draft:0.6");
  return devices;
}

// Text that devices at a round trip have of it, of what plain continuous batching of the target
// alone writes.
double OfTargetAlone(uint32_t session_count, std::string_view pass_time, int round_trip_ms,
                     PolicyKind policy, std::string_view skill, uint64_t seed = 1,
                     const Scenario& devices = OfTheirOwn()) {
  const std::unique_ptr<World> world = *World::Create({.vocabulary_size = 1000, .seed = seed});
  Scenario scenario = devices;
  scenario.link.delay = Milliseconds(round_trip_ms / 2.0);
  scenario.pass_time = *TimeProfile::Parse(pass_time);
  scenario.policy.kind = policy;
  scenario.skill = *DraftSkill::Parse(skill);
  scenario.session_count = session_count;
  scenario.stagger = Milliseconds(7);
  scenario.max_tokens = 300;
  scenario.sketch.pass_node_count_max = policy == PolicyKind::kAuto ? 63 : 16;
  Scenario alone = scenario;
  alone.policy.kind = PolicyKind::kOurs;
  alone.skill = *DraftSkill::Parse("none");
  alone.dry_policy = v1::DRY_POLICY_ALONE;
  double rates[2];
  for (const bool drafts : {false, true}) {
    Simulation simulation(*world, drafts ? scenario : alone);
    EXPECT_TRUE(simulation.Run());
    EXPECT_TRUE(CheckTexts(simulation).ok()) << CheckTexts(simulation);
    rates[drafts] = FiguresOf(simulation).tokens_per_target_second;
  }
  return rates[1] / rates[0];
}

// In the mean of some texts: one by itself has up to a tenth more or less.
TEST(Load, FourSessionsAtAServerWithCheapRowsHaveMoreThanTwiceTheText) {
  constexpr uint64_t kTexts = 8;
  for (const PolicyKind policy : {PolicyKind::kOurs, PolicyKind::kAuto}) {
    double sum = 0;
    for (uint64_t seed = 1; seed <= kTexts; ++seed) {
      sum += OfTargetAlone(4, "1:20,64:28", 0, policy, "good", seed);
    }
    EXPECT_GT(sum / kTexts, 2.2) << PolicyName(policy);
  }
}

// Whose drafts are mostly wrong are not waited for while others have the weights read.
TEST(Load, WhoWaitsForWrongDraftsLeavesNoRunHalfEmpty) {
  constexpr std::string_view kWrong = "0.2,0.08,0.04,0.02";
  for (const int round_trip_ms : {0, 10, 60}) {
    EXPECT_GT(OfTargetAlone(16, "cpu:20", round_trip_ms, PolicyKind::kOurs, kWrong), 0.96)
        << round_trip_ms;
    EXPECT_GT(OfTargetAlone(16, "cpu:20", round_trip_ms, PolicyKind::kAuto, kWrong), 0.96)
        << round_trip_ms;
  }
  EXPECT_GT(OfTargetAlone(16, "1:20,64:28", 10, PolicyKind::kOurs, kWrong), 0.98);
}

// Sixteen devices on one processor, which stands still for half of the time.
TEST(Load, DevicesThatAreLateCostTheOthersNoTimeOfTheTarget) {
  Scenario devices;
  devices.draft_time = *TimeProfile::Parse("draft:3.5");
  devices.one_draft_processor = Stalls{.length = Milliseconds(300), .every = Milliseconds(600)};
  for (const PolicyKind policy : {PolicyKind::kOurs, PolicyKind::kAuto}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      EXPECT_GT(OfTargetAlone(16, "1:80,64:112", 0, policy, "good", seed, devices), 0.98)
          << PolicyName(policy) << " " << seed;
    }
  }
}

// Runs as a processor has them: one that begins without a session that is nearly there costs it a
// token, and the next one has two groups.
TEST(Load, WhoIsNearIsInEveryRun) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    EXPECT_GT(OfTargetAlone(16, "1:110,5:135,8:168,16:234,32:441,64:990", 0, PolicyKind::kOurs,
                            "good", seed),
              0.97)
        << seed;
  }
}

}  // namespace
}  // namespace outrider
