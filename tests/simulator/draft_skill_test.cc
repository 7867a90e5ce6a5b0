#include "bench/simulator/sources/draft_skill.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr int32_t kVocabularySize = 500;

DraftSkill Skill(std::string_view text) {
  absl::StatusOr<DraftSkill> skill = DraftSkill::Parse(text);
  EXPECT_TRUE(skill.ok()) << skill.status();
  return *skill;
}

TokenId TruthAt(uint64_t place) {
  return static_cast<TokenId>(place * 7 % kVocabularySize);
}

// How often the truth is at each rank, over many places; the last: nowhere.
std::vector<double> RightByRank(const DraftSkill& skill, uint32_t count) {
  std::vector<double> right(count + 1);
  std::vector<Guess> guesses;
  constexpr int kPlaces = 20000;
  for (int place = 0; place < kPlaces; ++place) {
    skill.Propose(1, place, TruthAt(place), kVocabularySize, count, guesses);
    uint32_t rank = 0;
    while (rank < guesses.size() && guesses[rank].token != TruthAt(place)) ++rank;
    right[rank < guesses.size() ? rank : count] += 1.0 / kPlaces;
  }
  return right;
}

TEST(DraftSkill, TheTruthHasEachRankAsOftenAsAsked) {
  const std::vector<double> right = RightByRank(Skill("0.70,0.12,0.05,0.03,0.02"), 5);
  const std::vector<double> expected = {0.70, 0.12, 0.05, 0.03, 0.02, 0.08};
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_NEAR(right[rank], expected[rank], 0.013) << rank;  // four standard errors at most
  }
}

TEST(DraftSkill, NamedDraftersAreWhatTheyAreCalled) {
  EXPECT_NEAR(RightByRank(Skill("adversarial"), 4).back(), 1, 1e-9);
  EXPECT_NEAR(RightByRank(Skill("perfect"), 4).front(), 1, 1e-9);
  EXPECT_GT(RightByRank(Skill("good"), 4).front(), RightByRank(Skill("bad"), 4).front());
}

// At every rank, what is claimed is what happens.
TEST(DraftSkill, ConfidencesAreCalibrated) {
  const DraftSkill skill = Skill("0.5@0.95,0.02,0.01;0.5@0.45,0.2,0.1");
  std::vector<Guess> guesses;
  for (size_t rank = 0; rank < 3; ++rank) {
    double claimed = 0;
    double variance = 0;
    double right = 0;
    for (int place = 0; place < 20000; ++place) {
      skill.Propose(1, place, TruthAt(place), kVocabularySize, 3, guesses);
      const double p = guesses[rank].probability;
      claimed += p;
      variance += p * (1 - p);
      right += guesses[rank].token == TruthAt(place);
    }
    EXPECT_NEAR(right, claimed, 4 * std::sqrt(variance)) << rank;
  }
}

TEST(DraftSkill, ProposesDifferentTokensMostProbableFirstAndTheSameAgain) {
  const DraftSkill skill = Skill("0.4,0.3,0.2,0.1");
  std::vector<Guess> guesses;
  std::vector<Guess> again;
  for (int place = 0; place < 1000; ++place) {
    skill.Propose(9, place, TruthAt(place), 5, 4, guesses);
    skill.Propose(9, place, TruthAt(place), 5, 4, again);
    ASSERT_EQ(guesses.size(), 4u);
    for (size_t i = 0; i < guesses.size(); ++i) {
      EXPECT_EQ(guesses[i].token, again[i].token);
      for (size_t j = 0; j < i; ++j) {
        EXPECT_NE(guesses[i].token, guesses[j].token);
        EXPECT_LE(guesses[i].probability, guesses[j].probability);
      }
    }
  }
}

TEST(DraftSkill, FewerAskedForAreTheFirstOfMore) {
  const DraftSkill skill = Skill("0.4,0.3,0.2,0.1");
  std::vector<Guess> all;
  std::vector<Guess> few;
  for (int place = 0; place < 1000; ++place) {
    skill.Propose(9, place, TruthAt(place), kVocabularySize, 4, all);
    skill.Propose(9, place, TruthAt(place), kVocabularySize, 2, few);
    ASSERT_EQ(few.size(), 2u);
    EXPECT_EQ(few[0].token, all[0].token);
    EXPECT_EQ(few[1].token, all[1].token);
  }
}

TEST(DraftSkill, AClairvoyantProposesTheTruthWhereverTheOtherWouldAndNothingElse) {
  const DraftSkill skill = Skill("0.5,0.2");
  const DraftSkill clairvoyant = skill.Clairvoyant();
  std::vector<Guess> guesses;
  std::vector<Guess> seen;
  for (int place = 0; place < 1000; ++place) {
    skill.Propose(1, place, TruthAt(place), kVocabularySize, 2, guesses);
    clairvoyant.Propose(1, place, TruthAt(place), kVocabularySize, 2, seen);
    const bool holds_truth =
        guesses[0].token == TruthAt(place) || guesses[1].token == TruthAt(place);
    ASSERT_EQ(seen.size(), holds_truth ? 1u : 0u);
    if (holds_truth) {
      EXPECT_EQ(seen[0].token, TruthAt(place));
    }
  }
}

TEST(DraftSkill, RefusesWhatIsNoAcceptance) {
  for (const std::string_view text :
       {"", "x", "1.1", "0.6,0.5", "-0.1", "0.5@0.9", "0.5@0.9;0.6@0.1", "0@0.5;1@0.5", "nan"}) {
    EXPECT_FALSE(DraftSkill::Parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace outrider
