// What a device may grow below the root that it knows, and when it says go.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/tokens/growth_bits.h"
#include "common/verification/verified_sequence.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/sequence_messages.h"

namespace outrider::verified {
namespace {

using ::testing::ElementsAre;

// --- growth ---

std::vector<std::pair<NodeId, uint32_t>> NodesAndParents(VerifiedSequence& sequence) {
  std::vector<std::pair<NodeId, uint32_t>> nodes;
  const auto drafted = sequence.BeginPass(15);
  for (size_t i = 0; i < drafted.size(); ++i) {
    const uint32_t parent = drafted[i].parent;
    nodes.push_back(
        {static_cast<NodeId>(drafted[i].token),
         parent == DraftedNode::kRoot ? 0 : static_cast<uint32_t>(drafted[parent].token)});
  }
  sequence.DropPass();
  return nodes;
}

TEST(VerifiedSequence, AStepLeadsFromTheParentBeforeToTheNext) {
  const auto sequence = Make("once");
  //   first of a message, without a step: the root; then as the one before it; one above the node
  //   itself; one before that; two after that; further back than there are ids: the root
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 1, "abcdef", {0, 0, 16, 2 * 16, 3 * 16, 18 * 16})).ok());
  EXPECT_THAT(NodesAndParents(*sequence),
              ElementsAre(std::pair('a', 0), std::pair('b', 0), std::pair('c', 'b'),
                          std::pair('d', 'a'), std::pair('e', 'c'), std::pair('f', 0)));
  // A later message: without a step its first node is below the root too.
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 10, "gh", {0, 16 * 9})).ok());
  EXPECT_THAT(NodesAndParents(*sequence),
              ::testing::IsSupersetOf(
                  {std::pair<NodeId, uint32_t>('g', 0), std::pair<NodeId, uint32_t>('h', 'b')}));
}

TEST(VerifiedSequence, TheLeastDoubtfulNodesAreTaken) {
  const auto sequence = Make("once");
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 1, "abc", {7, 2, 16 + 3})).ok());  // c below b: 5
  const auto drafted = sequence->BeginPass(2);
  ASSERT_EQ(drafted.size(), 2u);
  EXPECT_EQ(drafted[0].token, 'b');
  EXPECT_EQ(drafted[1].token, 'c');
}

TEST(VerifiedSequence, BadGrowthIsRefusedInASentence) {
  const auto error_of = [](const v1::Grow& grow) {
    const auto sequence = Make("once");
    EXPECT_TRUE(sequence->Grow(ChainOf(0, 5, "ab")).ok());
    RunPass(*sequence, "abc");
    return Error(sequence->Grow(grow));
  };
  EXPECT_EQ(error_of(ChainOf(2, 7, "a")), "the device has seen verdict 2, and there have been 1");
  EXPECT_EQ(error_of(ChainOf(0, 7, std::string(33, 'a'))),
            "growth of 33 nodes is more than the 32 of a sketch");
  EXPECT_EQ(error_of(ChainOf(0, 6, "a")), "node 6 comes after node 6; ids rise strictly");
  EXPECT_EQ(error_of(ChainOf(0, 0xfffffffe, "ab")),
            "growth of 2 nodes from 4294967294 on goes past the last id; open a new session");
  const auto grow_of = [](const GrownNode& node) {
    v1::Grow grow;
    grow.set_first_id(7);
    ToldTokens told;
    WriteGrowthBits({&node, 1}, told, *grow.mutable_nodes());
    return grow;
  };
  EXPECT_EQ(error_of(grow_of({0, 1, 270})), "token 270 is outside the vocabulary of 0 to 269");
  EXPECT_EQ(error_of(grow_of({0, 16, 'a'})),
            "node 7 has a doubt of 16; that of an edge is at most 15");
  EXPECT_EQ(error_of(GrowOf(0, 7, "ab", {2 * 16, 9 * 16})),
            "node 8 has node 8 as its parent, which does not come before it");
  v1::Grow grow = ChainOf(0, 7, "ab");
  grow.mutable_nodes()->pop_back();
  EXPECT_EQ(error_of(grow), "growth of 2 nodes has 4 bytes, which end before its last node");
  grow = ChainOf(0, 7, "a");
  grow.mutable_nodes()->append("more");
  EXPECT_EQ(error_of(grow), "growth of 1 nodes ends after 3 of its 7 bytes");
}

TEST(VerifiedSequence, WhatADeviceHasSeenDoesNotBecomeUnseen) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  RunPass(*sequence, "b");
  ASSERT_TRUE(sequence->Grow(ChainOf(2, 1, "c")).ok());
  EXPECT_EQ(Error(sequence->Grow(ChainOf(1, 2, "c"))),
            "the device has seen verdict 1, and had seen 2 before");
}

TEST(VerifiedSequence, GrowthThatLeavesThemOutGoesOnWithIdsAndIsOfTheSameVerdict) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  RunPass(*sequence, "b");
  ASSERT_TRUE(sequence->Grow(ChainOf(1, 1, "bc")).ok());
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 0, "bd")).ok());  // it too is below b, which was committed
  EXPECT_THAT(NodesAndParents(*sequence), ElementsAre(std::pair('c', 0), std::pair('d', 0)));
  EXPECT_EQ(sequence->last_id(), 4u);
  EXPECT_EQ(sequence->seen(), 1u);
  // Ids begin anew with an epoch; an edit does not say what was seen.
  ASSERT_TRUE(sequence->Append(AppendOf(6, "x", /*reply=*/true)).ok());
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 0, "pq")).ok());
  EXPECT_EQ(sequence->last_id(), 2u);
  EXPECT_EQ(sequence->unseen_count(), 1u);
  EXPECT_EQ(sequence->node_count(), 2u);
}

// Late nodes were told all the same, and an edit begins an epoch.
TEST(VerifiedSequence, GrowthNamesTokensByTheirPlaceAmongThoseToldInItsEpoch) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  ToldTokens told;
  const auto chain = [&](uint32_t seen, NodeId first_id, std::string_view tokens) {
    std::vector<GrownNode> nodes;
    for (const char token : tokens) {
      nodes.push_back({nodes.empty() ? 0U : 1U, 1, static_cast<unsigned char>(token)});
    }
    v1::Grow grow;
    grow.set_seen(seen);
    grow.set_first_id(first_id);
    WriteGrowthBits(nodes, told, *grow.mutable_nodes());
    return grow;
  };
  ASSERT_TRUE(sequence->Grow(chain(0, 1, "xyz")).ok());
  EXPECT_EQ(sequence->node_count(), 0u) << "late: the text went on with a";
  ASSERT_TRUE(sequence->Grow(chain(1, 4, "zxy")).ok());
  EXPECT_THAT(NodesAndParents(*sequence),
              ElementsAre(std::pair('z', 0), std::pair('x', 'z'), std::pair('y', 'x')));
  const v1::Grow of_the_past = chain(1, 1, "xy");
  told.Clear();
  ASSERT_TRUE(sequence->Append(AppendOf(5, "b", /*reply=*/true)).ok());
  EXPECT_EQ(
      Error(sequence->Grow(of_the_past)),
      "growth names a token by its place 1 among those told of late, and there are not so many");
  ASSERT_TRUE(sequence->Grow(chain(1, 1, "xy")).ok());
  EXPECT_EQ(sequence->node_count(), 2u);
}

TEST(VerifiedSequence, LateGrowthIsNoError) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  RunPass(*sequence, "b");
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 1, "axbc", {1, 1, 2 * 16, 3 * 16})).ok());  // a(b(c)) and x
  EXPECT_THAT(NodesAndParents(*sequence), ElementsAre(std::pair('c', 0)));
}

TEST(VerifiedSequence, WhatAFullSketchHasNoRoomForIsLetGo) {
  const auto sequence = Make("once");
  ASSERT_TRUE(
      sequence->Grow(GrowOf(0, 1, "abcdefghijklmnopqrstuvwxyzABCDEF", std::vector<uint32_t>(32, 1)))
          .ok());
  EXPECT_EQ(sequence->node_count(), 32u);
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 33, "GHI", {1, 16, 16 + 1})).ok());
  EXPECT_EQ(sequence->node_count(), 32u);
}

TEST(VerifiedSequence, NodesAtPositionsBeyondTheContextAreLetGo) {
  v1::Open open = OpenOf("once");
  open.set_length_max(6);
  const auto sequence = Make(open);
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "abcd")).ok());
  EXPECT_EQ(sequence->node_count(), 2u);  // a is the fifth token, b the sixth
  const v1::Verdict verdict = RunPass(*sequence, "abc");
  EXPECT_EQ(TextOf(*sequence), "onceabc");
  EXPECT_EQ(verdict.finish(), v1::FINISH_LENGTH);
}

// --- go ---

TEST(VerifiedSequence, GoIsForTheRootItsSenderHadSeen) {
  const auto sequence = Make("once");
  v1::Grow go;
  go.set_go(true);
  ASSERT_TRUE(sequence->Grow(go).ok());
  EXPECT_TRUE(sequence->told_to_go());
  RunPass(*sequence, "a");
  EXPECT_FALSE(sequence->told_to_go());
  ASSERT_TRUE(sequence->Grow(go).ok());  // it was under way when the verdict fell
  EXPECT_FALSE(sequence->told_to_go());
  go.set_seen(1);
  sequence->BeginPass(0);
  ASSERT_TRUE(sequence->Grow(go).ok());  // as this one has been heard already
  EXPECT_FALSE(sequence->told_to_go());
}

}  // namespace
}  // namespace outrider::verified
