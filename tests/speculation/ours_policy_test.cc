#include "common/speculation/policies/ours_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/speculation/hand_draft.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

HandDraft RandomDraft(uint32_t seed) {
  std::mt19937 bits(seed);
  HandDraft draft;
  for (TokenId token = 0; token < 60; ++token) {
    const auto parent = static_cast<uint32_t>(bits() % draft.nodes.size());
    draft.Node(parent, token, static_cast<double>(bits() % 1000 + 1) / 4000);
  }
  return draft;
}

// Every node costs the same; so whatever is left out has less reach than all that is taken.
TEST(OursPolicy, NeverGrowsANodeThatIsLessLikelyToMatterThanOneItLeaves) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    OursPolicy ours(true);
    HandDraft draft = RandomDraft(seed);
    draft.pass_running = seed % 2 == 0;
    const std::vector<uint32_t> batch = draft.Expands(ours);
    double least = ours.Floor(draft.View());  // when there is nothing above it, nothing is taken
    if (!batch.empty()) least = 1;
    for (const uint32_t i : batch) least = std::min(least, draft.nodes[i].reach);
    for (uint32_t i = 0; i < draft.nodes.size(); ++i) {
      const bool open = draft.nodes[i].children == DraftNode::Children::kUnknown;
      if (!open || std::ranges::find(batch, i) != batch.end()) continue;
      EXPECT_LE(draft.nodes[i].reach, least) << "seed " << seed << ", node " << i;
    }
  }
}

TEST(OursPolicy, AHintChangesWhatIsGrownFirst) {
  OursPolicy ours(true);
  HandDraft draft;
  draft.Node(0, 1, 0.8);
  draft.Node(0, 2, 0.1);
  draft.TakeAll();
  draft.nodes[2].in_pass = false;
  draft.batch_node_count_max = 1;
  EXPECT_THAT(draft.Expands(ours), ElementsAre(1));
  draft.posterior.Take({.leaf = 0, .next = 2, .probability = 0.7});
  EXPECT_THAT(draft.Expands(ours), ElementsAre(2));
}

// A batch is as large as makes the most reach per time: nodes that are nearly free join it, nodes
// that cost as much as a batch of their own do not unless they are worth as much.
TEST(OursPolicy, BatchesByReachPerTime) {
  for (const double node_ms : {0.1, 8.0}) {
    OursPolicy ours(true);
    HandDraft draft({.draft_ms = 8, .draft_node_ms = node_ms});
    draft.Node(0, 1, 0.7);
    draft.Node(0, 2, 0.1);
    EXPECT_EQ(draft.Expands(ours).size(), node_ms < 1 ? 2U : 1U);
  }
}

TEST(OursPolicy, DraftsNothingThatItsTargetWouldNotTake) {
  OursPolicy ours(true);
  HandDraft draft;
  draft.Node(0, 1, 0.5);
  draft.Candidate(0, 2, 1, 0.2);
  const auto least = [&](double chance) {
    draft.costs.SetLeastChance(chance);
    return std::pair(draft.Expands(ours).size(), draft.Joins(ours).size());
  };
  EXPECT_EQ(least(0), std::pair(size_t{1}, size_t{1}));
  EXPECT_EQ(least(0.6), std::pair(size_t{1}, size_t{1}))
      << "what is left out is the target's choice";
  EXPECT_EQ(least(0.8), std::pair(size_t{0}, size_t{0}));
  draft = HandDraft();
  EXPECT_EQ(least(0.99), std::pair(size_t{1}, size_t{0})) << "a root's children are not known";
  EXPECT_EQ(least(1), std::pair(size_t{0}, size_t{0}));
}

TEST(OursPolicy, FullSketchTakesTheMostProbableCandidates) {
  OursPolicy ours(true);
  HandDraft draft;
  draft.room = 2;
  draft.Candidate(0, 1, 0, 0.2);
  draft.Candidate(0, 2, 1, 0.1);
  draft.Candidate(0, 3, 2, 0.4);
  EXPECT_THAT(draft.Joins(ours), ElementsAre(0, 2));
}

// A node that the text passes saves what a token takes at the most; so the sooner tokens come, the
// more probable has a node to be that is worth its bytes.
TEST(OursPolicy, GrowsWhatMaySaveMoreThanItCosts) {
  HandDraft slow({.round_trip_ms = 100, .pass_ms = 100});
  HandDraft fast({.round_trip_ms = 20, .pass_ms = 20});
  OursPolicy ours(true);
  const double floor = ours.Floor(slow.View());
  EXPECT_GT(floor, 0);
  EXPECT_NEAR(ours.Floor(fast.View()), 5 * floor, 1e-9);
  for (HandDraft* const draft : {&slow, &fast}) {
    draft->Candidate(0, 1, 0, 2 * floor);
    draft->Candidate(0, 2, 1, 0.5 * floor);
  }
  EXPECT_THAT(slow.Joins(ours), ElementsAre(0));
  EXPECT_THAT(fast.Joins(ours), IsEmpty());
}

TEST(OursPolicy, FloorRisesWhileTheSketchIsFullAndFallsBack) {
  OursPolicy ours(true);
  HandDraft draft;
  const double worth = ours.Floor(draft.View());
  draft.room = 0;
  ours.Learn(draft.View(), {0, 0});
  ours.Learn(draft.View(), {0, 0});
  EXPECT_GT(ours.Floor(draft.View()), worth);
  draft.room = 100;
  for (int i = 0; i < 10; ++i) ours.Learn(draft.View(), {0, 0});
  EXPECT_EQ(ours.Floor(draft.View()), worth);
}

// The target stands still; the pass would have 1 + .7 + .2 tokens. The batch under way (node 1) is
// expected to add what the root's children claim, .9, of node 1's .7: .63. It goes on beside the pass if it is not
// waited for, and so has to be worth half as much again.
TEST(OursPolicy, WaitsForABatchWhileItAddsMoreThanItsTimeIsWorth) {
  const double draft_ms = 10;
  const double break_even_ms = 1.5 * draft_ms * 1.9 / 0.63;  // of the pass
  for (const double pass_ms : {break_even_ms * 0.98, break_even_ms * 1.02}) {
    OursPolicy ours(true);
    HandDraft draft(
        {.pass_ms = pass_ms, .pass_node_ms = 0, .draft_ms = draft_ms, .draft_node_ms = 0});
    draft.Node(0, 1, 0.7);
    draft.Node(0, 2, 0.2);
    draft.nodes[1].children = DraftNode::Children::kAsked;
    EXPECT_EQ(ours.Send(draft.View(), true),
              pass_ms > break_even_ms ? Sending::kHold : Sending::kSend)
        << pass_ms;
  }
}

// As above, in a pass of three nodes: there is a place for node 1's child of .49, and the one of .14 would take
// that of .2.
TEST(OursPolicy, WaitsForNoMoreOfABatchThanThePassHasRoomFor) {
  const double draft_ms = 10;
  const double break_even_ms = 1.5 * draft_ms * 1.9 / 0.49;
  for (const double pass_ms : {break_even_ms * 0.98, break_even_ms * 1.02}) {
    OursPolicy ours(true);
    HandDraft draft(
        {.pass_ms = pass_ms, .pass_node_ms = 0, .draft_ms = draft_ms, .draft_node_ms = 0});
    draft.pass_node_count_max = 3;
    draft.Node(0, 1, 0.7);
    draft.Node(0, 2, 0.2);
    draft.nodes[1].children = DraftNode::Children::kAsked;
    EXPECT_EQ(ours.Send(draft.View(), true),
              pass_ms > break_even_ms ? Sending::kHold : Sending::kSend)
        << pass_ms;
  }
}

// As the first, but passes have told that a second and a third row take nothing, and a fourth takes 20 ms.
TEST(OursPolicy, WaitsForRowsByWhatTheNextOnesTake) {
  OursPolicy ours(true);
  HandDraft few({.pass_ms = 40, .pass_node_ms = 5, .draft_ms = 1, .knows_rows = true});
  for (int i = 0; i < 32; ++i) {
    const uint32_t nodes = i % 4;
    few.costs.MeasuredPass({nodes, nodes}, nodes == 3 ? 60 : 40);
  }
  few.Node(0, 1, 0.7);
  few.nodes[1].children = DraftNode::Children::kAsked;
  HandDraft more = few;
  more.Node(0, 2, 0.2);
  EXPECT_EQ(ours.Send(few.View(), true), Sending::kHold);
  EXPECT_EQ(ours.Send(more.View(), true), Sending::kSend);
}

// The text is likely to come to the first node, and not to the second.
TEST(OursPolicy, GathersWhatCanWaitWhileAPassRuns) {
  for (const double confidence : {0.7, 0.01}) {
    HandDraft draft({.draft_ms = 1});
    draft.Node(0, 1, confidence);
    draft.nodes[1].children = DraftNode::Children::kAsked;
    draft.pass_running = true;
    OursPolicy ours(true);
    OursPolicy awaited(false);
    EXPECT_EQ(ours.Send(draft.View(), true), confidence > 0.5 ? Sending::kSend : Sending::kHold);
    EXPECT_EQ(ours.Send(draft.View(), false), Sending::kSend);  // nothing else is to come
    EXPECT_EQ(awaited.Send(draft.View(), true), Sending::kHold);
  }
}

TEST(OursPolicy, GoesWhenTheDrafterKnowsNothing) {
  OursPolicy ours(true);
  HandDraft draft;
  draft.nodes[0].children = DraftNode::Children::kDrafted;
  EXPECT_THAT(draft.Expands(ours), IsEmpty());
  EXPECT_EQ(ours.Send(draft.View(), false), Sending::kGo);
}

}  // namespace
}  // namespace outrider
