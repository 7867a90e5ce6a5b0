#include "common/speculation/drafting/sketcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "common/speculation/policies/policies.h"
#include "common/speculation/policies/resting_policy.h"
#include "tests/base/allocation_count.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Children = std::vector<std::vector<Proposal>>;

MonotonicTime At(int ms) {
  return MonotonicTime(std::chrono::milliseconds(ms));
}

// Ahead, with a round trip of 60 ms.
class SketcherTest : public ::testing::Test {
 protected:
  // The drafter's answer.
  void Draft(const Children& children, int ms = 0) {
    std::vector<std::span<const Proposal>> spans(children.begin(), children.end());
    sketcher_.Drafted(sketcher_.newest_batch(), spans, At(ms));
  }

  std::vector<NodeId> Batch(int ms = 0) {
    std::vector<NodeId> nodes;
    for (const auto& asked : sketcher_.NextBatch(At(ms))) nodes.push_back(asked.node);
    return nodes;
  }

  std::vector<TokenId> Sent(int ms) {
    std::vector<TokenId> tokens;
    const auto growth = sketcher_.NextGrowth(At(ms));
    if (!growth) return tokens;
    for (const Sketch::Node& node : growth->nodes) tokens.push_back(node.token);
    return tokens;
  }

  std::vector<TokenId> Decide(NodeId leaf, TokenId next, int ms) {
    std::vector<TokenId> committed;
    sketcher_.Decided(leaf, next, At(ms), committed);
    return committed;
  }

  // Tokens of the nodes for which `which` holds, the root's not among them.
  template <typename Which>
  std::vector<TokenId> Tokens(const Which& which) const {
    std::vector<TokenId> tokens;
    for (const DraftNode& node : sketcher_.nodes().subspan(1)) {
      if (which(node)) tokens.push_back(node.token);
    }
    return tokens;
  }

  std::vector<TokenId> InPass() const {
    return Tokens([](const DraftNode& node) { return node.in_pass; });
  }

  CostModel costs_ = CostModel({.round_trip_ms = 60});
  std::unique_ptr<TreePolicy> policy_ = MakePolicy({PolicyKind::kOurs});
  Sketcher sketcher_ = Sketcher({.node_count_max = 64, .pass_node_count_max = 2}, *policy_, costs_);
};

// None of them is probable enough to join.
TEST_F(SketcherTest, WhenCandidatesAreTooManyTheLessProbableHalfGoes) {
  Sketcher sketcher({.node_count_max = 64, .candidate_count_max = 4}, *policy_, costs_);
  sketcher.NextBatch(At(0));
  const std::vector<Proposal> children = {
      {10, 4e-5}, {11, 1e-5}, {12, 3e-5}, {13, 2e-5}, {14, 5e-6}};
  const std::span<const Proposal> spans[] = {children};
  sketcher.Drafted(sketcher.newest_batch(), spans, At(0));
  std::vector<TokenId> left;
  for (const DraftCandidate& candidate : sketcher.candidates()) left.push_back(candidate.token);
  EXPECT_THAT(left, ElementsAre(10, 12, 14));
}

TEST_F(SketcherTest, WhatIsDraftedJoinsAndIsSentOnce) {
  EXPECT_THAT(Batch(), ElementsAre(Sketch::kRoot));
  EXPECT_THAT(Batch(), IsEmpty());  // busy
  Draft({{{10, 0.6}, {20, 0.2}}});
  EXPECT_EQ(sketcher_.sketch().nodes().size(), 2);
  EXPECT_THAT(Sent(0), ElementsAre(10, 20));
  EXPECT_THAT(Sent(1), IsEmpty());
}

// One that waited for growth had what was sent after it was thought to have begun, and one that others share takes less
// than it might.
TEST_F(SketcherTest, APassIsWhatItsVerdictTellsOfIt) {
  Batch();
  Draft({{{10, 0.6}, {20, 0.2}, {30, 0.1}}});
  ASSERT_THAT(Sent(0), ElementsAre(10, 20, 30));
  EXPECT_THAT(InPass(), ElementsAre(10, 20));
  const auto at_target = [&] {
    return Tokens([](const DraftNode& node) { return node.at_target; });
  };
  sketcher_.PassWas(sketcher_.nodes()[2].id, 1);
  EXPECT_THAT(at_target(), ElementsAre(10, 20));
  EXPECT_THAT(InPass(), ElementsAre(10));
  sketcher_.PassWas(sketcher_.nodes()[3].id, 3);
  EXPECT_THAT(InPass(), ElementsAre(10, 20, 30));
  sketcher_.PassWas(Sketch::kRoot, 0);
  EXPECT_THAT(at_target(), IsEmpty());
  EXPECT_TRUE(sketcher_.nodes()[0].in_pass);
}

// Both are asked for, and answered in any order.
TEST(SketcherBatches, MayBeInFlightTogether) {
  const auto policy = MakePolicy({PolicyKind::kOurs});
  const CostModel costs;
  Sketcher sketcher({.batch_node_count_max = 1, .batch_count_max = 2}, *policy, costs);
  const std::vector<Proposal> proposals = {{10, 0.5}, {20, 0.4}};
  const std::span<const Proposal> children[] = {proposals};
  EXPECT_EQ(sketcher.NextBatch(At(0)).size(), 1u);
  EXPECT_TRUE(sketcher.NextBatch(At(0)).empty());  // there is no second node to grow
  sketcher.Drafted(sketcher.newest_batch(), children, At(0));
  const NodeId first = sketcher.NextBatch(At(0))[0].node;
  const uint64_t first_batch = sketcher.newest_batch();
  const NodeId second = sketcher.NextBatch(At(0))[0].node;
  const uint64_t second_batch = sketcher.newest_batch();
  EXPECT_NE(first, second);
  EXPECT_TRUE(sketcher.NextBatch(At(0)).empty());  // two are in flight
  sketcher.Drafted(second_batch, children, At(0));
  EXPECT_EQ(sketcher.sketch().nodes().size(), 4u);
  sketcher.Drafted(second_batch, children, At(0));  // once
  EXPECT_EQ(sketcher.sketch().nodes().size(), 4u);
  sketcher.Drafted(first_batch, children, At(0));
  EXPECT_EQ(sketcher.sketch().nodes().size(), 6u);
}

TEST(SketcherBatches, AreMootOnceTheirNodesHaveEvaporated) {
  const auto policy = MakePolicy({PolicyKind::kOurs});
  const CostModel costs;
  Sketcher sketcher({}, *policy, costs);
  const std::vector<Proposal> proposals = {{10, 0.5}, {20, 0.4}};
  const std::span<const Proposal> children[] = {proposals};
  std::vector<TokenId> committed;
  sketcher.NextBatch(At(0));
  sketcher.Drafted(sketcher.newest_batch(), children, At(0));
  ASSERT_EQ(sketcher.NextBatch(At(0)).size(), 2u);  // 10 and 20
  const uint64_t batch = sketcher.newest_batch();
  sketcher.Decided(Sketch::kRoot, 10, At(0), committed);
  EXPECT_EQ(sketcher.CancelMoot(), std::nullopt);  // what follows 10 is still of use
  sketcher.Decided(Sketch::kRoot, 30, At(0), committed);
  EXPECT_EQ(sketcher.CancelMoot(), batch);
  EXPECT_EQ(sketcher.CancelMoot(), std::nullopt);
  ASSERT_EQ(sketcher.NextBatch(At(0)).size(), 1u);  // the new root
  const std::span<const Proposal> late[] = {proposals, proposals};
  sketcher.Drafted(batch, late, At(0));  // passed over
  EXPECT_EQ(sketcher.sketch().nodes().size(), 0u);
  sketcher.Restart(0);
  EXPECT_EQ(sketcher.CancelMoot(), sketcher.newest_batch());
}

TEST_F(SketcherTest, ATokenThatADrafterNamesTwiceIsOneNode) {
  Batch();
  Draft({{{10, 0.6}, {20, 0.2}, {10, 0.1}}});
  EXPECT_THAT(Sent(0), ElementsAre(10, 20));
}

TEST_F(SketcherTest, VerdictKeepsWhatIsBelowTheNewRoot) {
  Batch();
  Draft({{{10, 0.6}, {20, 0.2}}});
  EXPECT_THAT(Batch(), ElementsAre(1, 2));
  Draft({{{11, 0.5}}, {{21, 0.5}}});
  Sent(0);
  Batch();  // of 11 and 21
  EXPECT_THAT(Decide(Sketch::kRoot, 10, 100), ElementsAre(10));
  EXPECT_THAT(Tokens([](const DraftNode&) { return true; }), ElementsAre(11));
  EXPECT_EQ(sketcher_.nodes()[0].children, DraftNode::Children::kDrafted);
  EXPECT_EQ(sketcher_.nodes()[1].depth, 1);
  EXPECT_DOUBLE_EQ(sketcher_.nodes()[1].reach, 0.5);
  Draft({{{12, 0.5}}, {{22, 0.5}}}, 101);  // the half of it that is still of use
  EXPECT_THAT(Tokens([](const DraftNode&) { return true; }), ElementsAre(11, 12));
}

TEST_F(SketcherTest, AnswerForANodeThatBecameTheRootIsTheRoots) {
  Batch();
  Draft({{{10, 0.6}}});
  Sent(0);
  EXPECT_THAT(Batch(), ElementsAre(1));
  Decide(Sketch::kRoot, 10, 100);
  EXPECT_THAT(Batch(101), IsEmpty());
  Draft({{{11, 0.5}}}, 102);
  EXPECT_EQ(sketcher_.nodes()[1].parent, 0);
  EXPECT_EQ(sketcher_.nodes()[1].token, 11);
}

TEST_F(SketcherTest, AnswerForAnOldRootIsNotTheNewOnes) {
  Batch();
  Decide(Sketch::kRoot, 99, 50);
  Draft({{{10, 0.6}}}, 60);
  EXPECT_THAT(sketcher_.nodes(), ::testing::SizeIs(1));
  EXPECT_THAT(Batch(60), ElementsAre(Sketch::kRoot));
}

TEST_F(SketcherTest, AnswerOfAnOldEpochIsPassedOver) {
  Batch();
  sketcher_.Restart(0);
  EXPECT_THAT(Batch(), IsEmpty());
  Draft({{{10, 0.6}}});
  EXPECT_THAT(sketcher_.nodes(), ::testing::SizeIs(1));
  EXPECT_THAT(Batch(), ElementsAre(Sketch::kRoot));
}

TEST_F(SketcherTest, RenewedDraftIsSentAnewUnderNewIds) {
  Batch();
  Draft({{{10, 0.6}, {20, 0.2}}});
  Batch();
  Draft({{{11, 0.5}}, {{21, 0.5}}});
  Sent(0);
  Decide(Sketch::kRoot, 10, 100);
  EXPECT_EQ(sketcher_.nodes()[1].id, 3);
  sketcher_.Renew(7);
  EXPECT_EQ(sketcher_.nodes()[1].id, 1);
  EXPECT_EQ(sketcher_.sketch().commit_count(), 7);
  EXPECT_THAT(Sent(200), ElementsAre(11));
}

// 2 of a pass; 10 and 11 are the best.
TEST_F(SketcherTest, PassIsGuessedFromWhatHadBeenSentARoundTripBefore) {
  Batch();
  Draft({{{10, 0.9}, {20, 0.05}}});
  Sent(0);  // no pass runs: this one takes them
  EXPECT_THAT(InPass(), ElementsAre(10, 20));
  Batch();
  Draft({{{11, 0.9}, {12, 0.1}}, {{21, 0.5}}});
  Sent(10);
  Batch();
  Draft({{{13, 0.9}}, {}, {}});
  Sent(50);
  Decide(Sketch::kRoot, 10, 100);  // its successor began at 70; 13 comes at 80
  EXPECT_THAT(InPass(), ElementsAre(11, 12));
}

TEST_F(SketcherTest, WithoutGrowthNoPassRunsUnlessTheTargetWritesOnAlone) {
  const auto asks_to_go = [&] {
    Batch();
    Draft({{}});
    const auto growth = sketcher_.NextGrowth(At(1));
    return growth.has_value() && growth->go;
  };
  EXPECT_TRUE(asks_to_go());
  sketcher_.SetTargetWaits(false);
  sketcher_.Restart(0);
  EXPECT_FALSE(asks_to_go());
}

TEST_F(SketcherTest, HintedOutcomeJoinsThoughTheDrafterNeverThoughtOfIt) {
  Batch();
  Draft({{{10, 0.6}}});
  Sent(0);
  Batch();
  sketcher_.Hinted({.leaf = 1, .next = 77, .probability = 0.8}, At(1));
  const DraftNode& hinted = sketcher_.nodes().back();
  EXPECT_EQ(hinted.token, 77);
  EXPECT_GT(hinted.hint, 0);
  EXPECT_NEAR(hinted.reach, hinted.hint, 1e-9);
  Draft({{{77, 0.1}, {11, 0.5}}}, 2);  // and then it did
  EXPECT_THAT(Tokens([](const DraftNode&) { return true; }), ElementsAre(10, 77, 11));
}

// A child, one that was too improbable to join, and one that was never named.
TEST_F(SketcherTest, HintsAreWeighedAgainstWhatTheDraftSaysAndLearnedFrom) {
  Batch();
  Draft({{{10, 0.6}}});
  Sent(0);
  Batch();
  Draft({{{11, 0.5}, {12, 1e-6}}}, 1);
  ASSERT_EQ(sketcher_.candidates().size(), 1u);
  const auto rank_of_hint = [this](NodeId leaf, TokenId next) {
    sketcher_.Hinted({.leaf = leaf, .next = next, .probability = 0.8}, At(2));
    double rank = 0;
    for (const DraftNode& node : sketcher_.nodes()) {
      if (node.token == next) rank = node.hint;
    }
    for (const DraftCandidate& candidate : sketcher_.candidates()) {
      if (candidate.token == next) rank = std::max(rank, candidate.hint);
    }
    return rank;
  };
  const auto expected = [](double prior) {
    return HintTrust().Believed({.leaf = 1, .next = 0, .probability = 0.8}, prior);
  };
  EXPECT_DOUBLE_EQ(rank_of_hint(1, 11), expected(0.6 * 0.5));
  EXPECT_DOUBLE_EQ(rank_of_hint(1, 13), expected((0.6 - 0.6 * 0.5) / 4));
  EXPECT_DOUBLE_EQ(rank_of_hint(1, 12), expected(0.6 * 1e-6));
  Decide(1, 11, 3);
  // Two of the three were wrong, and little was expected of one of those.
  EXPECT_NE(rank_of_hint(Sketch::kRoot, 14), expected(0.25));
}

// Drafts as a synthetic model would, from ids alone, and answers verdicts at random.
void Drive(Sketcher& sketcher, int steps, uint32_t& state, std::vector<NodeId>& log) {
  static std::vector<std::vector<Proposal>> children;
  static std::vector<std::span<const Proposal>> spans;
  static std::vector<TokenId> committed;
  const auto next_bits = [&] { return state = state * 1664525 + 1013904223; };
  for (int step = 0; step < steps; ++step) {
    const MonotonicTime now = At(step);
    const auto batch = sketcher.NextBatch(now);
    const size_t batch_size = batch.size();
    log.push_back(static_cast<NodeId>(batch_size));
    for (const auto& asked : batch) log.push_back(asked.node);
    if (const auto growth = sketcher.NextGrowth(now)) {
      log.push_back(static_cast<NodeId>(growth->nodes.size()));
    }
    if (batch_size > 0) {
      children.resize(std::max(children.size(), batch_size));
      spans.clear();
      for (size_t i = 0; i < batch_size; ++i) {
        children[i].assign({{static_cast<TokenId>(next_bits() >> 8), 0.6},
                            {static_cast<TokenId>(next_bits() >> 8), 0.2}});
        spans.emplace_back(children[i]);
      }
      sketcher.Drafted(sketcher.newest_batch(), spans, now);
    }
    if (step % 7 != 6) continue;
    const size_t leaf = (next_bits() >> 16) % sketcher.nodes().size();
    const DraftNode& node = sketcher.nodes()[leaf];
    const TokenId next = node.sent ? 5 : node.token;
    committed.clear();
    sketcher.Hinted({sketcher.nodes()[node.parent].id, next, 0.5}, now);
    sketcher.Decided(sketcher.nodes()[leaf].sent ? sketcher.nodes()[leaf].id : Sketch::kRoot, next,
                     now, committed);
  }
}

// The tokens whose children a policy asks for, one at a time and the root's first, of a draft whose
// places differ in how sure they are:
//
//   root -+- 10 (.40) --- 11 (.9) --- 12 (.9)
//         +- 20 (.35) --- 21 (.4)
std::vector<TokenId> GrownBy(PolicyKind kind) {
  static constexpr TokenId kRootToken = 0;
  static const auto& children =
      *new std::map<TokenId, std::vector<Proposal>>{{kRootToken, {{10, 0.40}, {20, 0.35}}},
                                                    {10, {{11, 0.9}}},
                                                    {20, {{21, 0.4}}},
                                                    {11, {{12, 0.9}}},
                                                    {21, {}},
                                                    {12, {}}};
  const auto policy = MakePolicy({kind});
  const CostModel costs;
  Sketcher sketcher({}, *policy, costs);
  std::vector<TokenId> grown;
  for (auto batch = sketcher.NextBatch(At(0)); batch.size() == 1;
       batch = sketcher.NextBatch(At(0))) {
    const auto asked = std::ranges::find(sketcher.nodes(), batch[0].node, &DraftNode::id);
    grown.push_back(asked->token);
    const std::span<const Proposal> answer[] = {children.at(asked->token)};
    sketcher.Drafted(sketcher.newest_batch(), answer, At(0));
  }
  return grown;
}

// They agree as far as the draft is sure. Then the branches of .324 (three tokens) and .14 (two):
// EdgeLLM has 5 * .324 - 3 = -1.38 and 5 * .14 - 2 = -1.3, and LLMCad, of a sum of .464,
// 5 * .324 / .464 - 3 = .49 and 5 * .14 / .464 - 2 = -.49.
TEST(Pacers, GrowTheSameDraftInOrdersOfTheirOwn) {
  EXPECT_THAT(GrownBy(PolicyKind::kEdgellm), ElementsAre(0, 10, 20, 11, 21, 12));
  EXPECT_THAT(GrownBy(PolicyKind::kLlmcad), ElementsAre(0, 10, 20, 11, 12, 21));
}

class EveryPolicy : public ::testing::TestWithParam<PolicyKind> {};

TEST_P(EveryPolicy, SameEventsSameAnswers) {
  std::vector<NodeId> logs[2];
  for (std::vector<NodeId>& log : logs) {
    const auto policy = MakePolicy({GetParam()});
    const CostModel costs;
    Sketcher sketcher({}, *policy, costs);
    uint32_t state = 1;
    Drive(sketcher, 2000, state, log);
  }
  EXPECT_EQ(logs[0], logs[1]);
}

TEST_P(EveryPolicy, SteadyStateAllocatesNothing) {
  const auto policy = MakePolicy({GetParam()});
  const CostModel costs;
  Sketcher sketcher({}, *policy, costs);
  std::vector<NodeId> log;
  log.reserve(1 << 20);
  uint32_t state = 1;
  Drive(sketcher, 3000, state, log);
  const uint64_t before = AllocationCount();
  Drive(sketcher, 3000, state, log);
  EXPECT_EQ(AllocationCount(), before);
}

TEST_P(EveryPolicy, ShowsATargetThatNeverWaitsSomethingWhereItSendsDuringPasses) {
  const auto policy = MakePolicy({GetParam()});
  const CostModel costs;
  Sketcher sketcher({}, *policy, costs);
  sketcher.SetTargetWaits(false);
  sketcher.Restart(0);
  const std::vector<Proposal> children = {{10, 0.6}, {20, 0.35}};
  std::vector<TokenId> committed;
  size_t shown = 0;
  for (int ms = 0; ms < 100; ++ms) {
    if (const auto batch = sketcher.NextBatch(At(ms)); !batch.empty()) {
      sketcher.Drafted(sketcher.newest_batch(),
                       std::vector<std::span<const Proposal>>(batch.size(), children), At(ms));
    }
    if (const auto growth = sketcher.NextGrowth(At(ms))) shown += growth->nodes.size();
    if (ms % 10 == 5)
      sketcher.Hinted({.leaf = Sketch::kRoot, .next = 10, .probability = 0.6}, At(ms));
    if (ms % 10 == 9) sketcher.Decided(Sketch::kRoot, 10, At(ms), committed);
  }
  EXPECT_EQ(shown > 0, SendsDuringPasses(GetParam())) << shown;
}

// Whether it has begun another pass by then nobody knows. If it has not, it begins none before it
// is sent something, and no verdict comes.
TEST_P(EveryPolicy, SendsATargetThatIsToldToWaitWhatItWaitsFor) {
  const auto policy = MakePolicy({GetParam()});
  const CostModel costs;
  Sketcher sketcher({}, *policy, costs);
  sketcher.SetTargetWaits(false);
  sketcher.Restart(0);
  std::vector<TokenId> committed;
  sketcher.Decided(Sketch::kRoot, 10, At(0), committed);
  sketcher.SetTargetWaits(true);
  const std::vector<Proposal> children = {{10, 0.6}, {20, 0.35}};
  bool sent = false;
  for (int ms = 0; ms < 100 && !sent; ++ms) {
    if (const auto batch = sketcher.NextBatch(At(ms)); !batch.empty()) {
      sketcher.Drafted(sketcher.newest_batch(),
                       std::vector<std::span<const Proposal>>(batch.size(), children), At(ms));
    }
    sent = sketcher.NextGrowth(At(ms)).has_value();
  }
  EXPECT_TRUE(sent);
}

// However much that is, and whatever the policy would say of a part: nothing is left behind, and only
// with the last part the target is told that this is all.
TEST_P(EveryPolicy, ShowsGrowthInPartsAsItWouldAtOnce) {
  const auto shown = [](uint32_t growth_node_count_max) {
    const auto policy = MakePolicy({GetParam()});
    const CostModel costs;
    Sketcher sketcher({.growth_node_count_max = growth_node_count_max}, *policy, costs);
    const std::vector<Proposal> children = {{10, 0.6}, {20, 0.35}};
    std::vector<std::vector<NodeId>> goes(1);  // what is shown up to each of them
    std::vector<TokenId> committed;
    for (int ms = 0; ms < 200; ++ms) {
      if (const auto batch = sketcher.NextBatch(At(ms)); !batch.empty()) {
        sketcher.Drafted(sketcher.newest_batch(),
                         std::vector<std::span<const Proposal>>(batch.size(), children), At(ms));
      }
      while (const auto growth = sketcher.NextGrowth(At(ms))) {
        EXPECT_LE(growth->nodes.size(), growth_node_count_max);
        for (const Sketch::Node& node : growth->nodes) goes.back().push_back(node.id);
        if (growth->go) goes.emplace_back();
      }
      if (ms % 20 == 19) sketcher.Decided(Sketch::kRoot, 10, At(ms), committed);
    }
    return goes;
  };
  const auto at_once = shown(UINT32_MAX);
  EXPECT_GT(at_once.size(), 1u);
  EXPECT_EQ(shown(1), at_once);
  EXPECT_EQ(shown(3), at_once);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy,
                         ::testing::ValuesIn(kPolicyKinds.begin(), kPolicyKinds.end() - 1),
                         [](const auto& of) { return std::string(PolicyName(of.param)); });

// On one processor: a pass begins when nothing is being drafted, and until its verdict nothing is. So it is below a
// root that has something drafted below it, too.
TEST_P(EveryPolicy, DraftAndTargetTakeTurns) {
  const auto policy = MakePolicy({GetParam()});
  const CostModel costs({.round_trip_ms = 0, .pass_ms = 30, .draft_ms = 1});
  Sketcher sketcher({.takes_turns = true}, *policy, costs);
  sketcher.SetTargetWaits(true);
  const std::vector<Proposal> proposals = {{10, 0.6}, {20, 0.3}};
  std::vector<TokenId> committed;
  for (int verdict = 0; verdict < 5; ++verdict) {
    const int ms = 100 * verdict;
    int batches = 0;
    for (;; ++batches) {
      ASSERT_LT(batches, 200) << "a pass is begun some time";
      const size_t asked = sketcher.NextBatch(At(ms + batches)).size();
      const auto growth = sketcher.NextGrowth(At(ms + batches));
      ASSERT_NE(asked > 0, growth.has_value()) << "one of them has the processor";
      if (growth) {
        EXPECT_TRUE(growth->go);
        break;
      }
      sketcher.Drafted(sketcher.newest_batch(),
                       std::vector<std::span<const Proposal>>(asked, proposals), At(ms + batches));
    }
    const bool was_dry = verdict % 2 == 0;  // and is not the next time
    EXPECT_TRUE(batches > 0 || !was_dry) << "there is something to draft";
    EXPECT_TRUE(sketcher.NextBatch(At(ms + 50)).empty());
    EXPECT_FALSE(sketcher.NextGrowth(At(ms + 50)).has_value());
    const TokenId undrafted = 99;
    sketcher.Decided(Sketch::kRoot, was_dry ? 10 : undrafted, At(ms + 60), committed);
  }
}

// Beside a target that lends its waits: things are drafted during a pass, too, and none begins with what a verdict has
// left over before it is told to.
TEST_P(EveryPolicy, APassInWhoseWaitsThingsAreDraftedBeginsWhenTold) {
  const auto policy = MakePolicy({GetParam()});
  const CostModel costs({.round_trip_ms = 0, .pass_ms = 500, .draft_ms = 1});
  Sketcher sketcher({.drafts_in_waits = true}, *policy, costs);
  const std::vector<Proposal> proposals = {{10, 0.6}, {20, 0.3}};
  std::vector<TokenId> committed;
  for (int verdict = 0; verdict < 5; ++verdict) {
    int ms = 1000 * verdict;
    bool went = false;
    for (; !went; ++ms) {
      ASSERT_LT(ms, 1000 * verdict + 300) << "a pass is begun some time";
      EXPECT_FALSE(sketcher.View(At(ms)).pass_running);
      const size_t asked = sketcher.NextBatch(At(ms)).size();
      while (const auto growth = sketcher.NextGrowth(At(ms))) went = went || growth->go;
      if (asked == 0) continue;
      sketcher.Drafted(sketcher.newest_batch(),
                       std::vector<std::span<const Proposal>>(asked, proposals), At(ms));
    }
    EXPECT_TRUE(sketcher.View(At(ms)).pass_running);
    EXPECT_GT(sketcher.nodes().size(), 1u) << "not with a root alone";
    sketcher.Decided(Sketch::kRoot, 10, At(1000 * verdict + 900), committed);
  }
}

// As most texts leave an n-gram drafter: the target is told in the event that says so, and once.
TEST(SketcherSilence, ADrafterWithNothingToSaySaysSoInTheSameEvent) {
  for (const bool target_waits : {true, false}) {
    const auto policy = MakePolicy({PolicyKind::kOurs});
    const CostModel costs({.round_trip_ms = 1});
    Sketcher sketcher({}, *policy, costs);
    sketcher.SetTargetWaits(target_waits);
    std::vector<TokenId> committed;
    for (int verdict = 0; verdict < 5; ++verdict) {
      ASSERT_EQ(sketcher.NextBatch(At(20 * verdict)).size(), 1u);
      EXPECT_FALSE(sketcher.NextGrowth(At(20 * verdict)).has_value());  // it is being drafted
      sketcher.Drafted(sketcher.newest_batch(), std::vector<std::span<const Proposal>>(1),
                       At(20 * verdict));
      const auto growth = sketcher.NextGrowth(At(20 * verdict));
      ASSERT_TRUE(growth.has_value()) << target_waits;
      EXPECT_TRUE(growth->go);
      EXPECT_TRUE(growth->nodes.empty());
      EXPECT_FALSE(sketcher.NextGrowth(At(20 * verdict)).has_value());
      sketcher.Decided(Sketch::kRoot, 10, At(20 * verdict + 19), committed);
    }
  }
}

// A target that goes on has gone on when it hears of it; and one that nothing is drafted for does
// not have to be told every time.
TEST(SketcherSilence, IsNotToldToWhomItIsNoNews) {
  const auto policy = MakePolicy({PolicyKind::kOurs});
  const CostModel far({.round_trip_ms = 60, .pass_ms = 20});
  Sketcher distant({}, *policy, far);
  distant.SetTargetWaits(false);
  distant.NextBatch(At(0));
  distant.Drafted(distant.newest_batch(), std::vector<std::span<const Proposal>>(1), At(0));
  EXPECT_FALSE(distant.NextGrowth(At(0)).has_value());

  RestingPolicy resting;
  const CostModel near({.round_trip_ms = 1});
  Sketcher sketcher({}, resting, near);
  sketcher.SetTargetWaits(false);
  EXPECT_FALSE(sketcher.NextGrowth(At(0)).has_value());
}

TEST(Policies, NamesAreReadBackAndOthersRefused) {
  for (const std::string_view name :
       {"chain", "fsd", "llmcad", "edgellm", "lever", "ours", "awaited", "auto"}) {
    const auto kind = ParsePolicyKind(name);
    ASSERT_TRUE(kind.ok()) << name;
    EXPECT_EQ(PolicyName(*kind), name);
    if (*kind != PolicyKind::kAuto) {
      EXPECT_EQ(MakePolicy({*kind})->name(), name);
    }
  }
  EXPECT_THAT(std::string(ParsePolicyKind("best").status().message()),
              ::testing::HasSubstr("no tree policy \"best\""));
}

}  // namespace
}  // namespace outrider
