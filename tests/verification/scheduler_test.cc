#include "common/verification/machine/scheduler.h"

#include <algorithm>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using Candidate = Scheduler::Candidate;
using Share = Scheduler::Share;
using std::chrono::milliseconds;

Candidate Ready(uint64_t session, uint32_t node_count) {
  return {.session = session, .wants_pass = true, .node_count = node_count};
}

Candidate Reading(uint64_t session, uint32_t prompt_tokens) {
  return {.session = session, .prompt_tokens = prompt_tokens, .wants_pass = true};
}

// "session:nodes" of passes and "session<tokens" of prompts, as text that is easily compared.
std::vector<std::string> Chosen(Scheduler& scheduler, const std::vector<Candidate>& candidates,
                                uint32_t expected_count = 0) {
  std::vector<Share> shares;
  scheduler.Choose(candidates, {.expected_count = expected_count}, shares);
  std::vector<std::string> chosen;
  for (const Share& share : shares) {
    const std::string session = std::to_string(candidates[share.candidate].session);
    if (share.prompt_tokens > 0)
      chosen.push_back(session + "<" + std::to_string(share.prompt_tokens));
    if (share.has_pass) chosen.push_back(session + ":" + std::to_string(share.node_count));
  }
  return chosen;
}

// Sessions 1 to n, each of a key of its own.
Scheduler WithSessions(uint64_t count, const Scheduler::Options& options) {
  Scheduler scheduler(options);
  for (uint64_t session = 1; session <= count; ++session) scheduler.Open(session, 100 + session);
  return scheduler;
}

TEST(Scheduler, WhoFitsGetsWhatItWants) {
  Scheduler scheduler = WithSessions(3, {.row_count_max = 64});
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 15), Ready(2, 0), Ready(3, 40)}),
              ElementsAre("1:15", "2:0", "3:40"));
  EXPECT_THAT(Chosen(scheduler, {}), ElementsAre());
}

// Whatever each run takes of them: passes that divide its rows, prompts that one of them has alone.
TEST(Scheduler, KeysThatAlwaysWantMoreGetTheTargetsTimeByTheirShares) {
  Scheduler scheduler({.row_count_max = 16, .run_row_count_max = 64});
  scheduler.Open(1, 101, 1);
  scheduler.Open(2, 103, 3);
  std::map<uint64_t, double> seconds;
  for (int run = 0; run < 3000; ++run) {
    const bool reads = run % 3 == 0;
    const std::vector<Candidate> candidates = {reads ? Reading(1, 500) : Ready(1, 40),
                                               reads ? Reading(2, 500) : Ready(2, 40)};
    std::vector<Share> shares;
    scheduler.Choose(candidates, {}, shares);
    for (const Share& share : shares) {
      const uint64_t session = candidates[share.candidate].session;
      const uint32_t rows = share.prompt_tokens + (share.has_pass ? 1 + share.node_count : 0);
      scheduler.Charge(session, milliseconds(rows));
      seconds[session] += rows / 1e3;
    }
  }
  EXPECT_NEAR(seconds[2] / seconds[1], 3, 0.1);
}

TEST(Scheduler, NodesFallAsLoadRises) {
  Scheduler scheduler = WithSessions(8, {.row_count_max = 16});
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 15)}), ElementsAre("1:15"));
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 15), Ready(2, 15)}), ElementsAre("1:7", "2:7"));
  std::vector<Candidate> all;
  for (uint64_t session = 1; session <= 8; ++session) all.push_back(Ready(session, 15));
  EXPECT_THAT(Chosen(scheduler, all),
              ElementsAre("1:1", "2:1", "3:1", "4:1", "5:1", "6:1", "7:1", "8:1"));
}

TEST(Scheduler, WhatOneDoesNotWantGoesToTheOthers) {
  Scheduler scheduler = WithSessions(3, {.row_count_max = 16});
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 1), Ready(2, 15), Ready(3, 15)}),
              ElementsAre("1:1", "2:6", "3:6"));
}

TEST(Scheduler, OfTheSameKeyTheLikeliestNodesComeFirst) {
  Scheduler scheduler({.row_count_max = 12});
  std::vector<Candidate> candidates;
  for (uint64_t session = 1; session <= 3; ++session) {
    scheduler.Open(session, /*key=*/7);
    candidates.push_back(Ready(session, 10));
  }
  candidates[0].by_doubt = {{0, 0, 0, 5, 5}};
  candidates[1].by_doubt = {{2, 3, 5}};
  candidates[2].by_doubt = {{0, 2, 8}};
  // 3 roots, 2 + 5 nodes of the first two kinds, and 2 of the 13 of the third.
  EXPECT_THAT(Chosen(scheduler, candidates), ElementsAre("1:0", "2:6", "3:3"));
  // Unknown ones are the last.
  candidates[1].by_doubt = {};
  EXPECT_THAT(Chosen(scheduler, candidates), ElementsAre("1:0", "2:0", "3:9"));
}

TEST(Scheduler, ARunHasNoMoreThanTwiceTheRowsThatWereTried) {
  Scheduler scheduler = WithSessions(40, {.first_row_count = 64, .run_row_count_max = 512});
  std::vector<Candidate> candidates;
  for (uint64_t session = 1; session <= 40; ++session) candidates.push_back(Ready(session, 15));
  std::vector<uint32_t> rows;
  for (int run = 0; run < 60; ++run) {
    std::vector<Share> shares;
    scheduler.Choose(candidates, {}, shares);
    rows.push_back(0);
    for (const Share& share : shares) rows.back() += 1 + share.node_count;
    scheduler.LearnRunTime(rows.back(), 0,
                           milliseconds(20) + rows.back() * std::chrono::microseconds(30));
  }
  EXPECT_EQ(rows.front(), 64u);
  for (size_t run = 1; run < rows.size(); ++run) {
    EXPECT_LE(rows[run], 2.0 * *std::max_element(rows.begin(), rows.begin() + run) + 1);
  }
  EXPECT_EQ(rows.back(), 512u - 16u);
}

TEST(Scheduler, KeysGetEqualPartsHoweverManySessionsTheyHave) {
  Scheduler scheduler({.row_count_max = 24});
  for (uint64_t session = 1; session <= 3; ++session) scheduler.Open(session, /*key=*/7);
  scheduler.Open(4, /*key=*/8);
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 15), Ready(2, 15), Ready(3, 15), Ready(4, 15)}),
              ElementsAre("1:3", "2:3", "3:3", "4:11"));
}

TEST(Scheduler, APassThatCanWaitTakesOnlyWhatNobodyWants) {
  Scheduler scheduler = WithSessions(3, {.row_count_max = 8});
  Candidate patient = Ready(3, 0);
  patient.claim = Scheduler::Claim::kSpare;
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 3), Ready(2, 3), patient}), ElementsAre("1:3", "2:3"));
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 3), Ready(2, 2), patient}),
              ElementsAre("1:3", "2:2", "3:0"));
  EXPECT_THAT(Chosen(scheduler, {patient}), ElementsAre("3:0"));
}

TEST(Scheduler, ARootBesideOthersTakesARowThatNobodyWantsOfARunThatTakesPlace) {
  Scheduler scheduler = WithSessions(4, {.row_count_max = 8});
  Candidate beside = Ready(3, 0);
  beside.claim = Scheduler::Claim::kBeside;
  EXPECT_THAT(Chosen(scheduler, {beside}), ElementsAre()) << "there is no run for its sake";
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 3), beside}), ElementsAre("1:3", "3:0"));
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 3), Ready(2, 3), beside}), ElementsAre("1:3", "2:3"));
  EXPECT_THAT(Chosen(scheduler, {Reading(1, 10), beside}), ElementsAre("1<10", "1:0", "3:0"));
  Candidate patient = Ready(4, 0);
  patient.claim = Scheduler::Claim::kSpare;
  EXPECT_THAT(Chosen(scheduler, {patient, beside}), ElementsAre("4:0", "3:0"));
}

// --- fairness ---

// Runs of a target whose time is that of its rows, with everybody always ready.
std::map<uint64_t, Duration> TimeUsed(Scheduler& scheduler,
                                      const std::vector<Candidate>& candidates, int runs) {
  std::map<uint64_t, Duration> used;
  std::vector<Share> shares;
  for (int i = 0; i < runs; ++i) {
    scheduler.Choose(candidates, {}, shares);
    for (const Share& share : shares) {
      const uint64_t session = candidates[share.candidate].session;
      const Duration cost = milliseconds(1 + share.node_count);
      scheduler.Charge(session, cost);
      used[session] += cost;
    }
  }
  return used;
}

TEST(Scheduler, SessionsThatDoNotFitTogetherTakeTurns) {
  Scheduler scheduler({.row_count_max = 4});
  std::vector<Candidate> candidates;
  for (uint64_t session = 1; session <= 10; ++session) {
    scheduler.Open(session, /*key=*/1);
    candidates.push_back(Ready(session, 15));
  }
  const auto used = TimeUsed(scheduler, candidates, 1000);
  ASSERT_EQ(used.size(), 10u);
  for (const auto& [session, time] : used) EXPECT_EQ(time, milliseconds(400)) << session;
}

TEST(Scheduler, KeysGetEqualTimeThoughOneHasMoreSessions) {
  Scheduler scheduler({.row_count_max = 2});
  std::vector<Candidate> candidates;
  for (uint64_t session = 1; session <= 12; ++session) {
    scheduler.Open(session, /*key=*/session <= 3 ? session : 3);  // keys 1, 2 and 3: 1, 1 and 10
    candidates.push_back(Ready(session, 15));
  }
  auto used = TimeUsed(scheduler, candidates, 3000);
  Duration crowd{};
  for (uint64_t session = 3; session <= 12; ++session) crowd += used[session];
  EXPECT_NEAR(static_cast<double>(used[1].count()) / crowd.count(), 1, 0.01);
  EXPECT_NEAR(static_cast<double>(used[2].count()) / crowd.count(), 1, 0.01);
  EXPECT_NEAR(static_cast<double>(used[3].count()) / used[12].count(), 1, 0.02);
}

TEST(Scheduler, WhoComesBackStartsEvenAndTakesNobodysTurn) {
  Scheduler scheduler = WithSessions(2, {.row_count_max = 1});
  TimeUsed(scheduler, {Ready(1, 0)}, 1000);  // session 2 has been away for long
  const auto used = TimeUsed(scheduler, {Ready(1, 0), Ready(2, 0)}, 10);
  EXPECT_EQ(used.at(1), milliseconds(5));
  EXPECT_EQ(used.at(2), milliseconds(5));
}

TEST(Scheduler, WhoWasExpensiveWaitsForTheOthers) {
  Scheduler scheduler = WithSessions(2, {.row_count_max = 1});
  TimeUsed(scheduler, {Ready(1, 0), Ready(2, 0)}, 2);
  scheduler.Charge(1, milliseconds(5));
  const auto used = TimeUsed(scheduler, {Ready(1, 0), Ready(2, 0)}, 5);
  EXPECT_EQ(used.count(1), 0u);
  EXPECT_EQ(used.at(2), milliseconds(5));
}

TEST(Scheduler, AKeyThatLeavesAndComesBackHasNoCredit) {
  Scheduler scheduler = WithSessions(2, {.row_count_max = 1});
  TimeUsed(scheduler, {Ready(1, 0), Ready(2, 0)}, 100);
  scheduler.Close(2);
  scheduler.Open(3, 102);
  const auto used = TimeUsed(scheduler, {Ready(1, 0), Ready(3, 0)}, 10);
  EXPECT_EQ(used.at(3), milliseconds(5));
}

// --- prompts ---

// A target that takes `run` to read its weights and `row` for every row.
void Learn(Scheduler& scheduler, Duration run, Duration row) {
  for (const uint32_t rows : {1, 16, 4, 64, 1, 128, 8}) {
    scheduler.LearnRunTime(rows, 0, run + rows * row);
  }
}

// Pieces take 8 times the run without them, in these bounds.
constexpr Scheduler::Options kBounds = {.run_row_count_max = 256,
                                        .prompt_tokens_min = 16,
                                        .prompt_time_min = milliseconds(50),
                                        .prompt_time_max = milliseconds(500)};

TEST(Scheduler, APromptIsReadInBoundedTimeBesideThePasses) {
  Scheduler scheduler = WithSessions(2, kBounds);
  // Nothing is known of its speed at first.
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 3), Reading(2, 1000)}), ElementsAre("1:3", "2<16"));
  Learn(scheduler, milliseconds(120), milliseconds(5));
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 3), Reading(2, 1000)}), ElementsAre("1:3", "2<100"));
  Scheduler fast = WithSessions(2, kBounds);
  Learn(fast, std::chrono::microseconds(200), milliseconds(1));
  EXPECT_THAT(Chosen(fast, {Reading(2, 1000)}, /*expected_count=*/1), ElementsAre("2<50"));
}

TEST(Scheduler, APromptTakesAnEighthLongerThanItWouldAlone) {
  Scheduler scheduler = WithSessions(2, kBounds);
  Learn(scheduler, milliseconds(20), milliseconds(5));  // 40 without it
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 3), Reading(2, 1000)}), ElementsAre("1:3", "2<64"));
}

TEST(Scheduler, ARunHasNoMoreRowsThanOneReadOfTheWeightsIsFor) {
  Scheduler::Options options = kBounds;
  options.row_count_max = 64;
  Scheduler scheduler = WithSessions(3, options);
  for (int i = 0; i < 20; ++i) Learn(scheduler, milliseconds(100), std::chrono::microseconds(1));
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 9), Reading(2, 1000)}), ElementsAre("1:9", "2<246"));
  EXPECT_THAT(Chosen(scheduler, {Ready(1, 99), Reading(2, 150), Reading(3, 150)}),
              ElementsAre("1:62", "2<150", "2:0", "3<42"))
      << "passes have a limit of their own";
}

TEST(Scheduler, SixteenTokensThatCostOneReadOfTheWeightsAreNotAllThereWillEverBe) {
  Scheduler scheduler = WithSessions(2, kBounds);
  const auto time = [](uint32_t rows) { return milliseconds(80) + rows * milliseconds(4); };
  uint32_t piece = 0;
  for (int run = 0; run < 10; ++run) {
    std::vector<Share> shares;
    scheduler.Choose(std::vector{Reading(1, 1000)}, {.expected_count = 1}, shares);
    piece = shares.at(0).prompt_tokens;
    scheduler.LearnRunTime(0, piece, time(piece));
  }
  EXPECT_NEAR(piece, 125, 2);
}

TEST(Scheduler, WhoIsExpectedIsNotDelayedEither) {
  Scheduler scheduler = WithSessions(1, kBounds);
  Learn(scheduler, milliseconds(30), milliseconds(2));
  EXPECT_THAT(Chosen(scheduler, {Reading(1, 1000)}, /*expected_count=*/1), ElementsAre("1<120"));
  EXPECT_THAT(Chosen(scheduler, {Reading(1, 1000)}), ElementsAre("1<256"));
}

TEST(Scheduler, SlowPromptsGoOnAndFastOnesHaveALimit) {
  Scheduler slow = WithSessions(1, kBounds);
  Learn(slow, milliseconds(0), std::chrono::seconds(1));
  EXPECT_THAT(Chosen(slow, {Reading(1, 1000)}, 1), ElementsAre("1<16"));
  Scheduler fast = WithSessions(1, kBounds);
  for (int i = 0; i < 20; ++i) Learn(fast, milliseconds(1), std::chrono::microseconds(1));
  EXPECT_THAT(Chosen(fast, {Reading(1, 1000)}, 1), ElementsAre("1<256"));
  Scheduler instant = WithSessions(1, kBounds);
  instant.LearnRunTime(1000, 0, {});
  EXPECT_THAT(Chosen(instant, {Reading(1, 1000)}, 1), ElementsAre("1<256"));
}

TEST(Scheduler, APassComesWithTheLastOfItsPrompt) {
  Scheduler scheduler = WithSessions(2, {.prompt_tokens_min = 16});
  EXPECT_THAT(Chosen(scheduler, {Reading(1, 10), Reading(2, 10)}),
              ElementsAre("1<10", "1:0", "2<6"));
}

TEST(Scheduler, PromptsAreReadOneAfterTheOtherByWhoHasHadLeast) {
  Scheduler scheduler = WithSessions(2, {.prompt_tokens_min = 16});
  EXPECT_THAT(Chosen(scheduler, {Reading(1, 100), Reading(2, 100)}), ElementsAre("1<16"));
  scheduler.Charge(1, milliseconds(10));
  EXPECT_THAT(Chosen(scheduler, {Reading(1, 84), Reading(2, 100)}), ElementsAre("2<16"));
}

// 16 rows fill a block of the kernels, and take as long as four; the next one takes a fifth more, and
// 32 nearly twice as long.
class Blocks : public testing::Test {
 protected:
  static constexpr double kSecondPrice = 300;  // tokens

  Blocks() {
    for (const uint32_t rows : {4, 8, 12, 16}) scheduler_.LearnRunTime(rows, 0, milliseconds(68));
  }

  void LearnMore() {
    scheduler_.LearnRunTime(17, 0, milliseconds(80));
    scheduler_.LearnRunTime(32, 0, milliseconds(117));
  }

  // So many sessions, each with `nodes` that are as good as sure.
  uint32_t Rows(uint64_t session_count, uint32_t nodes, double second_price = kSecondPrice) {
    std::vector<Candidate> candidates;
    for (uint64_t session = 1; session <= session_count; ++session) {
      candidates.push_back(Ready(session, nodes));
      candidates.back().by_doubt[1] = static_cast<uint16_t>(nodes);
    }
    std::vector<Share> shares;
    scheduler_.Choose(candidates, {.second_price = second_price}, shares);
    uint32_t rows = 0;
    for (const Share& share : shares) rows += 1 + share.node_count;
    return rows;
  }

  Scheduler scheduler_ = WithSessions(64, {});
};

TEST_F(Blocks, AreFilledAndNotBegun) {
  LearnMore();
  EXPECT_EQ(Rows(14, 1), 16u);
  EXPECT_EQ(Rows(16, 1), 16u);
  EXPECT_EQ(Rows(4, 3), 16u);
}

TEST_F(Blocks, AreBegunWhereEnoughNodesFillThem) {
  LearnMore();
  EXPECT_EQ(Rows(4, 7, kSecondPrice / 2), 32u);
}

TEST_F(Blocks, MatterToNobodyWhoseTimeCostsNothing) {
  LearnMore();
  EXPECT_EQ(Rows(16, 1, /*second_price=*/0), 32u);
}

TEST_F(Blocks, OfARunThatReadsAPromptHaveRoom) {
  LearnMore();
  std::vector<Share> shares;
  std::vector<Candidate> candidates = {Reading(64, 100)};
  for (uint64_t session = 1; session <= 16; ++session) candidates.push_back(Ready(session, 1));
  scheduler_.Choose(candidates, {.second_price = kSecondPrice}, shares);
  EXPECT_EQ(shares.back().node_count, 1u);
}

// Of sizes that no run of late had nobody says that one is too large: rows cost what they do elsewhere.
TEST_F(Blocks, BeyondThoseThatAreKnownAreNoBound) {
  for (const uint32_t rows : {62, 63, 64}) {
    scheduler_.LearnRunTime(rows, 0, milliseconds(rows == 64 ? 71 : 69));
  }
  EXPECT_GT(Rows(60, 3), 100u);
  EXPECT_EQ(Rows(60, 3), Rows(60, 3, /*second_price=*/0));
}

TEST_F(Blocks, ThatNobodyKnowsAreTried) {
  EXPECT_EQ(Rows(16, 1), 32u);
}

TEST_F(Blocks, MakeANodeAsDearAsOneForEach) {
  LearnMore();
  const std::optional<RunTime::Line> line = scheduler_.pass_line();
  ASSERT_TRUE(line.has_value());
  EXPECT_NEAR(scheduler_.NodeSeconds(16, *line), 0.049 / 16, 1e-9);
  EXPECT_NEAR(scheduler_.NodeSeconds(8, *line), 0, 1e-9);
  EXPECT_EQ(scheduler_.NodeSeconds(40, *line), line->row_seconds);
}

}  // namespace
}  // namespace outrider
