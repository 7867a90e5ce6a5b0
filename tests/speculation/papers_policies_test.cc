// The policies of the papers, against examples worked out by hand from their formulas.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/speculation/policies/chain_policy.h"
#include "common/speculation/policies/edgellm_policy.h"
#include "common/speculation/policies/fallback_rule.h"
#include "common/speculation/policies/fsd_policy.h"
#include "common/speculation/policies/lever_policy.h"
#include "common/speculation/policies/llmcad_policy.h"
#include "tests/speculation/hand_draft.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// --- chain ---

TEST(ChainPolicy, DraftsGammaInARowAndAwaitsTheVerdict) {
  ChainPolicy chain(2);
  HandDraft draft;
  EXPECT_THAT(draft.Expands(chain), ElementsAre(0));
  EXPECT_EQ(chain.Send(draft.View(), true), Sending::kHold);
  draft.Candidate(0, 5, 0, 0.6);
  EXPECT_THAT(draft.Joins(chain), ElementsAre(0));
  draft.candidates.clear();
  draft.Node(0, 5, 0.6);
  EXPECT_THAT(draft.Expands(chain), ElementsAre(1));
  draft.Node(1, 6, 0.5);
  EXPECT_THAT(draft.Expands(chain), IsEmpty());
  EXPECT_EQ(chain.Send(draft.View(), false), Sending::kGo);
  draft.TakeAll();
  EXPECT_THAT(draft.Expands(chain), IsEmpty());
  EXPECT_EQ(chain.Send(draft.View(), false), Sending::kHold);
}

TEST(ChainPolicy, GoesWithWhatThereIsWhenTheDrafterKnowsNoMore) {
  ChainPolicy chain(4);
  HandDraft draft;
  draft.nodes[0].children = DraftNode::Children::kDrafted;
  EXPECT_THAT(draft.Expands(chain), IsEmpty());
  EXPECT_EQ(chain.Send(draft.View(), false), Sending::kGo);
}

// --- FSD, algorithm 1 ---

TEST(FsdPolicy, PreDraftsTheMostConfidentHintsFirst) {
  FsdPolicy fsd(2);
  HandDraft draft;
  draft.Node(0, 5, 0.6);
  draft.Node(1, 6, 0.5);
  draft.TakeAll();
  draft.candidates = {{1, 7, 0, 0.3, 0.3}, {2, 8, 0, 0.5, 0.5}};
  EXPECT_THAT(draft.Joins(fsd), ElementsAre(0, 1));  // Q_p.push
  draft.candidates.clear();
  draft.nodes[draft.Node(1, 7, 0.3)].hint = 0.3;
  draft.nodes[draft.Node(2, 8, 0.5)].hint = 0.5;
  draft.batch_node_count_max = 1;
  EXPECT_THAT(draft.Expands(fsd), ElementsAre(4));  // Q_p.pop: the one with .5
  draft.batch_node_count_max = 8;
  EXPECT_THAT(draft.Expands(fsd), ElementsAre(4, 3));
  EXPECT_EQ(fsd.Send(draft.View(), false), Sending::kHold);  // the cache stays on the device
}

TEST(FsdPolicy, PreDraftsGammaTokensAfterAHintAndNoMore) {
  FsdPolicy fsd(2);
  HandDraft draft;
  draft.Node(0, 5, 0.6);
  draft.TakeAll();
  draft.nodes[draft.Node(1, 7, 0.9)].hint = 0.9;
  draft.Node(2, 8, 0.5);
  EXPECT_THAT(draft.Expands(fsd), ElementsAre(3));
  draft.Node(3, 9, 0.5);
  EXPECT_THAT(draft.Expands(fsd), IsEmpty());
}

TEST(FsdPolicy, SendsAHitAtOnceThoughTheDrafterIsBusy) {
  FsdPolicy fsd(2);
  HandDraft hit;
  hit.Node(0, 8, 0.5);
  hit.Node(1, 9, 0.5);
  EXPECT_EQ(fsd.Send(hit.View(), true), Sending::kGo);
  HandDraft miss;
  EXPECT_EQ(fsd.Send(miss.View(), true), Sending::kHold);
  EXPECT_THAT(miss.Expands(fsd), ElementsAre(0));
}

// --- the pacers ---

// Branches of .6 (two tokens) and .2 (one): M = 3.
HandDraft TwoBranches() {
  HandDraft draft;
  draft.Node(0, 1, 0.75);
  draft.Node(0, 2, 0.2);
  draft.Node(1, 3, 0.8);
  return draft;
}

TEST(EdgellmPolicy, GrowsTheBranchThatIsMostShortOfItsLength) {
  EdgellmPolicy edgellm;
  HandDraft draft = TwoBranches();
  // M C - T (equation 2): 3 * .6 - 2 = -.2 and 3 * .2 - 1 = -.4.
  EXPECT_THAT(draft.Expands(edgellm), ElementsAre(3));
  // One token more on the first: 4 * .3 - 3 = -1.8 and 4 * .2 - 1 = -.2.
  draft.Node(3, 4, 0.5);
  EXPECT_THAT(draft.Expands(edgellm), ElementsAre(2));
}

TEST(LlmcadPolicy, GrowsTheBranchFurthestBelowItsFairShare) {
  LlmcadPolicy llmcad;
  HandDraft draft = TwoBranches();
  // M C / sum - T: 3 * .6 / .8 - 2 = .25 and 3 * .2 / .8 - 1 = -.25.
  EXPECT_THAT(draft.Expands(llmcad), ElementsAre(3));
  draft.Node(3, 4, 0.5);
  // 4 * .3 / .5 - 3 = -.6 and 4 * .2 / .5 - 1 = .6.
  EXPECT_THAT(draft.Expands(llmcad), ElementsAre(2));
}

// Branches of .24 (two tokens) and .1 (one). EdgeLLM: 3 * .24 - 2 = -1.28 and 3 * .1 - 1 = -.7;
// LLMCad, whose shares add up to the tree: 3 * .24 / .34 - 2 = .12 and 3 * .1 / .34 - 1 = -.12.
TEST(PacedPolicy, AnUnsureTreeIsWhereTheTwoPacersPart) {
  HandDraft draft;
  draft.Node(0, 1, 0.4);
  draft.Node(0, 2, 0.1);
  draft.Node(1, 3, 0.6);
  EdgellmPolicy edgellm;
  LlmcadPolicy llmcad;
  EXPECT_THAT(draft.Expands(edgellm), ElementsAre(2));
  EXPECT_THAT(draft.Expands(llmcad), ElementsAre(3));
}

TEST(PacedPolicy, EveryCandidateAbove30PercentBeginsABranch) {
  EdgellmPolicy edgellm;
  HandDraft draft;
  draft.Candidate(0, 1, 0, 0.25);  // the best lengthens the branch, whatever its confidence
  EXPECT_THAT(draft.Joins(edgellm), ElementsAre(0));
  draft.candidates = {{0, 1, 0, 0.35, 0}, {0, 2, 1, 0.31, 0}, {0, 3, 2, 0.30, 0}};
  EXPECT_THAT(draft.Joins(edgellm), ElementsAre(0, 1));
}

TEST(PacedPolicy, VerifiesWhenTheBestBranchFallsBelowAlphaAndDraftsOnMeanwhile) {
  EdgellmPolicy edgellm;
  HandDraft draft;
  draft.Node(0, 1, 0.1);
  draft.Node(1, 2, 0.2);  // T_c = .02
  EXPECT_EQ(edgellm.Send(draft.View(), true), Sending::kHold);
  EXPECT_THAT(draft.Expands(edgellm), ElementsAre(2));
  draft.Node(2, 3, 0.4);  // .008 < .01
  EXPECT_THAT(draft.Expands(edgellm), IsEmpty());
  EXPECT_EQ(edgellm.Send(draft.View(), true), Sending::kGo);
  draft.TakeAll();
  EXPECT_THAT(draft.Expands(edgellm), ElementsAre(3));
  EXPECT_EQ(edgellm.Send(draft.View(), false), Sending::kHold);
}

// --- the fallback rule, LLMCad equation 3 ---

TEST(FallbackRule, HalvesWhenAllWasRightAndRisesWithWhatWasNot) {
  FallbackRule rule;
  EXPECT_DOUBLE_EQ(rule.alpha(), 0.01);
  rule.Verified(0.009, 5, 5);
  EXPECT_DOUBLE_EQ(rule.alpha(), 0.005);
  rule.Verified(0.0016, 4, 2);  // / .0016^(1/2) = / .04
  EXPECT_NEAR(rule.alpha(), 0.125, 1e-12);
  EXPECT_TRUE(rule.Due(0.124));
  EXPECT_FALSE(rule.Due(0.125));
}

TEST(FallbackRule, WrongDraftsEndInOneTokenAPassAndRightOnesLeadOut) {
  FallbackRule rule;
  for (int i = 0; i < 3; ++i) rule.Verified(0.5, 1, 0);
  EXPECT_NEAR(rule.alpha(), 0.08, 1e-12);
  for (int i = 0; i < 3; ++i) rule.Verified(0.01, 4, 0);
  EXPECT_TRUE(rule.Due(1));
  for (int i = 0; i < 30; ++i) rule.Verified(0.5, 1, 1);
  EXPECT_FALSE(rule.Due(0.9));
}

TEST(FallbackRule, StaysWhereItIsToldTo) {
  FallbackRule rule(0.2);
  rule.Verified(0.1, 5, 5);
  rule.Verified(0.1, 5, 0);
  EXPECT_DOUBLE_EQ(rule.alpha(), 0.2);
  EXPECT_FALSE(FallbackRule(0.0).Due(0));
}

TEST(PacedPolicy, WithAnAlphaOfNothingOnlyAFullPassIsVerified) {
  EdgellmPolicy edgellm(0.0);
  HandDraft draft;
  draft.pass_node_count_max = 2;
  draft.Node(0, 1, 0.001);
  EXPECT_EQ(edgellm.Send(draft.View(), true), Sending::kHold);
  draft.Node(1, 2, 0.001);
  EXPECT_EQ(edgellm.Send(draft.View(), true), Sending::kGo);
}

TEST(PacedPolicy, LearnsFromTheBranchThatMatchedBest) {
  EdgellmPolicy edgellm;
  HandDraft draft = TwoBranches();
  draft.TakeAll();
  // One of the two tokens of the branch of .6 was right; T_c = .6.
  edgellm.Learn(draft.View(), {.leaf = 1, .next = 9});
  EXPECT_NEAR(edgellm.fallback().alpha(), 0.01 / std::sqrt(0.6), 1e-12);
  EdgellmPolicy other;
  other.Learn(draft.View(), {.leaf = 2, .next = 9});  // the whole of the short branch
  EXPECT_DOUBLE_EQ(other.fallback().alpha(), 0.005);
}

// --- LEVER ---

// A verification of 100 ms and 2 a node, drafting 10 ms a node.
CostModel::Assumed LeverCosts() {
  return {
      .round_trip_ms = 0, .pass_ms = 100, .pass_node_ms = 2, .draft_ms = 10, .draft_node_ms = 10};
}

// dC = 12. The first candidate joins while b / 12 > G / C, C = 10 (the root's batch) + 100:
// b > 12 / 110 = .1091.
TEST(LeverPolicy, StopsExactlyWhenTheMarginIsNoBetterThanTheWhole) {
  for (const double b : {0.1090, 0.1092}) {
    LeverPolicy lever;
    HandDraft draft(LeverCosts());
    EXPECT_THAT(draft.Expands(lever), ElementsAre(0));
    draft.Candidate(0, 1, 0, b);
    EXPECT_EQ(draft.Joins(lever).empty(), b < 12.0 / 110) << b;
  }
}

// G and C grow with the tree: after a node of .5, 12 * 1.5 / (20 + 102) = .1475.
TEST(LeverPolicy, TheThresholdRisesWithTheTree) {
  for (const double b : {0.147, 0.148}) {
    LeverPolicy lever;
    HandDraft draft(LeverCosts());
    EXPECT_THAT(draft.Expands(lever), ElementsAre(0));
    draft.Node(0, 1, 0.5);
    EXPECT_THAT(draft.Expands(lever), ElementsAre(1));
    draft.nodes[1].children = DraftNode::Children::kDrafted;
    draft.Candidate(0, 2, 1, b);
    EXPECT_EQ(draft.Joins(lever).empty(), b < 12.0 * 1.5 / 122) << b;
  }
}

TEST(LeverPolicy, TakesTheBestAndExpandsItBeforeTheNext) {
  LeverPolicy lever;
  HandDraft draft(LeverCosts());
  draft.Expands(lever);
  draft.Candidate(0, 1, 0, 0.5);
  draft.Candidate(0, 2, 1, 0.4);
  EXPECT_THAT(draft.Joins(lever), ElementsAre(0));
  EXPECT_EQ(lever.Send(draft.View(), true), Sending::kHold);
}

TEST(LeverPolicy, DistrustsADraftWhoseCandidatesAreSeldomChosen) {
  LeverPolicy lever;
  EXPECT_EQ(lever.reliability(), 1);
  HandDraft draft(LeverCosts());
  draft.Node(0, 1, 0.5);
  draft.Candidate(0, 2, 1, 0.3);
  draft.TakeAll();
  lever.Learn(draft.View(), {.leaf = 0, .next = 2});  // in the set of the root
  EXPECT_EQ(lever.reliability(), 1);
  for (int i = 0; i < 100; ++i) lever.Learn(draft.View(), {.leaf = 0, .next = 3});
  EXPECT_LT(lever.reliability(), 0.01);
  // A set that claims .8 and is right half of the time.
  for (int i = 0; i < 400; ++i) lever.Learn(draft.View(), {.leaf = 0, .next = i % 2 == 0 ? 2 : 3});
  EXPECT_NEAR(lever.reliability(), 0.5 / 0.8, 0.05);
}

}  // namespace
}  // namespace outrider
