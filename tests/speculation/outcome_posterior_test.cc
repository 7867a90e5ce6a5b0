#include "common/speculation/drafting/outcome_posterior.h"

#include <gtest/gtest.h>

#include "tests/speculation/hand_draft.h"

namespace outrider {
namespace {

// The root and node 1 (.7) are in the pass; 2 (.2 below the root), 3 (.6 below 1) and 4 (.5 below
// 2) are pre-drafts.
HandDraft Draft() {
  HandDraft draft;
  draft.Node(0, 10, 0.7);
  draft.Node(0, 20, 0.2);
  draft.Node(1, 30, 0.6);
  draft.Node(2, 40, 0.5);
  draft.nodes[1].in_pass = true;
  return draft;
}

double SumOfOutcomes(const std::vector<DraftNode>& nodes) {
  return OutcomePosterior::Probability(nodes, 0, 20) + OutcomePosterior::Probability(nodes, 1, 30) +
         OutcomePosterior::SomethingElse(nodes, 0) + OutcomePosterior::SomethingElse(nodes, 1);
}

TEST(OutcomePosterior, PriorIsTheDraftsAndAddsUpToOne) {
  HandDraft draft = Draft();
  draft.posterior.Spread(draft.nodes);
  EXPECT_DOUBLE_EQ(OutcomePosterior::Probability(draft.nodes, 0, 20), 0.2);
  EXPECT_DOUBLE_EQ(OutcomePosterior::Probability(draft.nodes, 1, 30), 0.42);
  EXPECT_NEAR(OutcomePosterior::SomethingElse(draft.nodes, 0), 0.1, 1e-12);
  EXPECT_NEAR(OutcomePosterior::SomethingElse(draft.nodes, 1), 0.28, 1e-12);
  EXPECT_NEAR(SumOfOutcomes(draft.nodes), 1, 1e-12);
  // What the pass has taken is no outcome's next.
  EXPECT_EQ(OutcomePosterior::Probability(draft.nodes, 0, 10), 0);
}

TEST(OutcomePosterior, HintMovesTheMassAsTheFormulaSays) {
  HandDraft draft = Draft();
  draft.posterior.Take({.leaf = 0, .next = 20, .probability = 0.8});
  draft.posterior.Spread(draft.nodes);
  EXPECT_DOUBLE_EQ(OutcomePosterior::Probability(draft.nodes, 0, 20), 0.8);
  EXPECT_NEAR(OutcomePosterior::Probability(draft.nodes, 1, 30), 0.2 * 0.42 / 0.8, 1e-12);
  EXPECT_NEAR(OutcomePosterior::SomethingElse(draft.nodes, 0), 0.2 * 0.1 / 0.8, 1e-12);
  EXPECT_NEAR(SumOfOutcomes(draft.nodes), 1, 1e-12);
  EXPECT_NEAR(draft.nodes[4].reach, 0.8 * 0.5, 1e-12);  // below the outcome, the draft again
  EXPECT_NEAR(draft.nodes[1].reach, 0.2 * 0.7 / 0.8, 1e-12);
}

// Of several hints the one that is believed moves the mass, whichever came last.
TEST(OutcomePosterior, TheHintThatIsBelievedMovesTheMass) {
  for (const HintBelief belief : {HintBelief::kNewest, HintBelief::kProbability}) {
    HandDraft draft = Draft();
    draft.posterior = OutcomePosterior(belief);
    draft.posterior.Take({.leaf = 0, .next = 20, .probability = 0.8, .exit = 0});
    draft.posterior.Take({.leaf = 1, .next = 30, .probability = 0.5, .exit = 1});
    draft.posterior.Spread(draft.nodes);
    const bool newest = belief == HintBelief::kNewest;
    EXPECT_NEAR(OutcomePosterior::Probability(draft.nodes, 0, 20), newest ? 0.5 * 0.2 / 0.58 : 0.8,
                1e-12);
    EXPECT_NEAR(OutcomePosterior::Probability(draft.nodes, 1, 30), newest ? 0.5 : 0.2 * 0.42 / 0.8,
                1e-12);
    EXPECT_NEAR(SumOfOutcomes(draft.nodes), 1, 1e-12);
  }
}

TEST(OutcomePosterior, HintBelowANodeSpeaksForThatNode) {
  HandDraft draft = Draft();
  draft.posterior.Take({.leaf = 1, .next = 30, .probability = 0.9});
  draft.posterior.Spread(draft.nodes);
  // The outcomes below node 1 are the hinted one and something else there.
  EXPECT_NEAR(draft.nodes[1].reach, 0.9 + 0.1 * 0.28 / 0.58, 1e-12);
  EXPECT_NEAR(SumOfOutcomes(draft.nodes), 1, 1e-12);
}

TEST(OutcomePosterior, HintOfAnUnknownTokenTakesFromAllOthersAlike) {
  HandDraft draft = Draft();
  draft.posterior.Take({.leaf = 1, .next = 99, .probability = 0.6});
  draft.posterior.Spread(draft.nodes);
  EXPECT_NEAR(OutcomePosterior::Probability(draft.nodes, 0, 20), 0.4 * 0.2, 1e-12);
  EXPECT_NEAR(OutcomePosterior::SomethingElse(draft.nodes, 1), 0.6 + 0.4 * 0.28, 1e-12);
  EXPECT_NEAR(SumOfOutcomes(draft.nodes), 1, 1e-12);
}

TEST(OutcomePosterior, ChildrenThatClaimTooMuchShareWhatThereIs) {
  HandDraft draft;
  draft.Node(0, 10, 0.9);
  draft.Node(0, 20, 0.6);
  draft.posterior.Spread(draft.nodes);
  EXPECT_DOUBLE_EQ(draft.nodes[1].reach, 0.6);
  EXPECT_DOUBLE_EQ(draft.nodes[2].reach, 0.4);
  EXPECT_NEAR(OutcomePosterior::SomethingElse(draft.nodes, 0), 0, 1e-12);
}

TEST(OutcomePosterior, HintOfALeafThatIsGoneIsNoNews) {
  HandDraft draft = Draft();
  draft.posterior.Take({.leaf = 77, .next = 20, .probability = 0.8});
  draft.posterior.Spread(draft.nodes);
  EXPECT_DOUBLE_EQ(draft.nodes[2].reach, 0.2);
}

TEST(OutcomePosterior, CertaintyDividesByNothing) {
  HandDraft draft;
  draft.Node(0, 10, 1.0);
  draft.posterior.Take({.leaf = 0, .next = 10, .probability = 0.5});
  draft.posterior.Spread(draft.nodes);
  EXPECT_DOUBLE_EQ(draft.nodes[1].reach, 0.5);
  EXPECT_TRUE(draft.nodes[0].reach >= 0 && draft.nodes[0].reach <= 1);
}

}  // namespace
}  // namespace outrider
