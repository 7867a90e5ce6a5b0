// A log tells which of an exit's choices the target has shared, from tokens alone.
#include "adapters/calibration/guess_log.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

using Rankings = std::vector<std::vector<Ranked>>;

void Hear(GuessLog& log, uint32_t exit, const Outcome& outcome, const Rankings& rankings) {
  const std::vector<std::span<const Ranked>> ranked(rankings.begin(), rankings.end());
  ExitGuess guess{};
  guess.exit = exit;
  guess.outcome = outcome;
  guess.probability = 0.25f;
  for (const auto& one : ranked) guess.evidence.AddChoice(one, 2);
  guess.evidence.agrees_with_previous = exit > 0;
  guess.ranked = ranked;
  log.Hear(guess);
}

// The tree is 5, with 7 below it; the target goes down to 5 and chooses 8 there.
TEST(GuessLog, TellsWhereTheTargetChoseToo) {
  GuessLog log;
  Hear(log, 0, {DraftedNode::kRoot, 6}, {{{6, 3}, {5, 1}}});
  Hear(log, 1, {1, 9}, {{{5, 3}, {6, 2}}, {{7, 4}, {3, 2}}, {{9, 1}}});
  Hear(log, 2, {0, 8}, {{{5, 3}, {6, 2}}, {{8, 4}, {7, 2}}});
  EXPECT_TRUE(log.guesses().empty());
  log.Close({0, 8}, std::vector<TokenId>{5, 8});
  ASSERT_EQ(log.guesses().size(), 3u);
  EXPECT_EQ(log.pass_count(), 1u);

  const GuessLog::Guess& wrong = log.guesses()[0];
  EXPECT_FALSE(wrong.matches);
  EXPECT_FALSE(wrong.matches_at_root);
  EXPECT_TRUE(log.ChoiceOf(wrong, 0).on_path);
  EXPECT_EQ(log.ChoiceOf(wrong, 0).taken, 1u);

  const GuessLog::Guess& half = log.guesses()[1];
  EXPECT_FALSE(half.matches);
  EXPECT_TRUE(half.matches_at_root);
  EXPECT_EQ(log.ChoiceOf(half, 0).taken, 0u);
  EXPECT_TRUE(log.ChoiceOf(half, 1).on_path);
  EXPECT_FALSE(log.ChoiceOf(half, 1).taken.has_value());  // 8 was not ranked
  EXPECT_FALSE(log.ChoiceOf(half, 2).on_path);

  const GuessLog::Guess& right = log.guesses()[2];
  EXPECT_TRUE(right.matches);
  EXPECT_TRUE(right.matches_at_root);
  EXPECT_EQ(log.ChoiceOf(right, 1).taken, 0u);
}

TEST(GuessLog, MakesEvidenceForAnyKappa) {
  GuessLog log;
  const Rankings rankings = {{{5, 3}, {6, 2}}, {{8, 4}, {7, 2}, {1, 0}}};
  Hear(log, 1, {0, 8}, rankings);
  log.Close({0, 8}, std::vector<TokenId>{5, 8});
  const ExitEvidence same = log.EvidenceOf(log.guesses()[0], 2);
  EXPECT_EQ(same.doubt, log.guesses()[0].evidence.doubt);
  EXPECT_EQ(same.entropy, log.guesses()[0].evidence.entropy);
  EXPECT_TRUE(same.agrees_with_previous);
  EXPECT_EQ(log.EvidenceOf(log.guesses()[0], 0.5f).margin, 2);  // (3 - 2) / 0.5
}

TEST(GuessLog, ForgetsWhatCameToNothing) {
  GuessLog log;
  Hear(log, 0, {DraftedNode::kRoot, 5}, {{{5, 3}, {6, 2}}});
  log.Drop();
  EXPECT_EQ(log.pass_count(), 0u);
  Hear(log, 0, {DraftedNode::kRoot, 6}, {{{6, 9}}});
  log.Close({DraftedNode::kRoot, 6}, std::vector<TokenId>{6});
  ASSERT_EQ(log.guesses().size(), 1u);
  EXPECT_EQ(log.ChoiceOf(log.guesses()[0], 0).ranked[0].token, 6);
  EXPECT_EQ(log.guesses()[0].pass, 0u);
}

}  // namespace
}  // namespace outrider
