// Who gets the target when everybody wants it.
#include "bench/simulator/studies/shares.h"

#include <chrono>
#include <memory>
#include <vector>

#include "bench/simulator/studies/lossless.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Duration kRun = milliseconds(40);  // of a full one

// Eight sessions whose drafts are never refused, so that they always have more to be verified: the
// first one, with passes of 63 nodes, most of all.
Scenario Crowd() {
  Scenario scenario;
  scenario.link.delay = milliseconds(10);
  scenario.pass_time = *TimeProfile::Parse("1:20,64:40");
  scenario.skill = *DraftSkill::Parse("perfect");
  scenario.draft_time = TimeProfile::Constant(milliseconds(2));
  scenario.session_count = 8;
  scenario.greed = {.pass_nodes = 63, .draft_time = TimeProfile::Constant(milliseconds(1))};
  scenario.max_tokens = 2000;
  return scenario;
}

Shares SharesIn(const Scenario& scenario) {
  const std::unique_ptr<World> world = *World::Create({.vocabulary_size = 1000, .seed = 1});
  Simulation simulation(*world, scenario);
  EXPECT_TRUE(simulation.Run());
  EXPECT_TRUE(CheckTexts(simulation).ok()) << CheckTexts(simulation);
  return SharesOf(simulation, milliseconds(500));
}

// In every window, to a part of it.
void ExpectFair(const std::vector<Shares::Of>& all, double part) {
  for (const Shares::Of& one : all) {
    EXPECT_GE(one.by_window.size(), 4u);
    EXPECT_GT(one.least(), one.fair * (1 - part)) << one.name;
    EXPECT_LT(one.most(), one.fair * (1 + part)) << one.name;
  }
}

TEST(Shares, AGreedySessionGetsNoMoreThanTheOthers) {
  const Shares shares = SharesIn(Crowd());
  ASSERT_EQ(shares.sessions.size(), 8u);
  EXPECT_DOUBLE_EQ(shares.sessions[0].fair, 1.0 / 8);
  ExpectFair(shares.sessions, 0.03);
  for (const Shares::Of& one : shares.sessions) EXPECT_LE(one.longest_wait, 2 * kRun) << one.name;
}

TEST(Shares, SevenSessionsOfOneKeyGetTogetherWhatOneOfAnotherGets) {
  Scenario scenario = Crowd();
  scenario.sessions_of_key = {1, 7};
  const Shares shares = SharesIn(scenario);
  ASSERT_EQ(shares.keys.size(), 2u);
  EXPECT_DOUBLE_EQ(shares.keys[1].fair, 1.0 / 2);
  EXPECT_DOUBLE_EQ(shares.sessions[7].fair, 1.0 / 14);
  ExpectFair(shares.keys, 0.03);
  // Those whose prompts were read first had passes before the others came, and pay them back in the
  // first window: 6.25 % of it, where 7.1 is fair.
  ExpectFair(shares.sessions, 0.15);
}

// Two rows a key and run: of seven sessions with one key, two go at a time.
TEST(Shares, WhereRowsDoNotDoForAllTheyTakeTurnsAndNobodyStarves) {
  Scenario scenario = Crowd();
  scenario.sessions_of_key = {1, 7};
  scenario.rows_max = 4;
  scenario.pass_time = TimeProfile::Constant(kRun);
  scenario.max_tokens = 200;
  const Shares shares = SharesIn(scenario);
  ExpectFair(shares.keys, 0.05);
  for (const Shares::Of& one : shares.sessions) {
    EXPECT_NEAR(one.mean(), one.fair, 0.05 * one.fair) << one.name;
    EXPECT_LE(one.longest_wait, 5 * kRun) << one.name;
  }
}

TEST(Shares, WhoWantsLittleGetsItInEveryRunAndTheGreedyOneTheRest) {
  Scenario scenario = Crowd();
  scenario.sketch.pass_node_count_max = 1;
  scenario.max_tokens = 1000;
  const Shares shares = SharesIn(scenario);
  EXPECT_GT(shares.sessions[0].least(), 0.6);
  for (size_t i = 1; i < shares.sessions.size(); ++i) {
    EXPECT_LE(shares.sessions[i].longest_wait, 2 * kRun);
  }
}

TEST(Shares, WhoCanUseLessLeavesTheRestToTheOthers) {
  const auto parts = [](std::vector<double> usable) { return MaxMinParts(usable, 1); };
  EXPECT_THAT(parts({0.9, 0.1, 0.5}), ElementsAre(DoubleEq(0.45), DoubleEq(0.1), DoubleEq(0.45)));
  EXPECT_THAT(parts({0.1, 0.2}), ElementsAre(DoubleEq(0.1), DoubleEq(0.2)));
  EXPECT_THAT(parts({7, 7}), ElementsAre(DoubleEq(0.5), DoubleEq(0.5)));
  EXPECT_THAT(parts({}), IsEmpty());
}

// Where rows are dear every session has its root in every run and little more: a key of one session
// cannot have a third of the target.
TEST(Shares, AKeyHasWhatItsSessionsCanUse) {
  Scenario scenario = Crowd();
  scenario.pass_time = *TimeProfile::Parse("1:20,64:400");
  scenario.skill = *DraftSkill::Parse("good");
  scenario.greed = {};
  scenario.session_count = 16;
  scenario.sessions_of_key = {1, 3, 12};
  scenario.max_tokens = 300;
  const Shares shares = SharesIn(scenario);
  ASSERT_EQ(shares.keys.size(), 3u);
  EXPECT_LT(shares.keys[0].usable, 0.15);
  EXPECT_LT(shares.keys[0].mean(), 0.15);
  for (const Shares::Of& key : shares.keys) {
    EXPECT_NEAR(key.mean() / key.usable, 1, 0.2) << key.name;
  }
}

}  // namespace
}  // namespace outrider
