// What pruning takes out of a tree, and what stays whatever an exit says.
#include "common/engine/tree_pruning.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using Chances = std::vector<std::optional<float>>;

constexpr uint32_t kRoot = DraftedNode::kRoot;

std::vector<uint32_t> Staying(TreePruning& pruning, const std::vector<DraftedNode>& nodes,
                              const Chances& chances) {
  const std::span<const bool> stays = pruning.Choose(nodes, chances);
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (stays[i]) kept.push_back(i);
  }
  return kept;
}

//  root - 0 - 1 - 3
//       |   \ 2 - 4
//       \ 5 - 6
const std::vector<DraftedNode> kTree = {{1, kRoot}, {2, 0},     {3, 0}, {4, 1},
                                        {5, 2},     {6, kRoot}, {7, 5}};

TEST(TreePruning, UnlikelyEdgesGoAndWhatHangsBelowThem) {
  TreePruning pruning({.threshold = 0.1f, .node_count_min = 0}, 16);
  EXPECT_THAT(Staying(pruning, kTree, {0.6f, 0.5f, 0.09f, 0.9f, 0.9f, 0.3f, 0.2f}),
              ElementsAre(0, 1, 3, 5, 6))
      << "2 is below the threshold, and 4 below 2";
  EXPECT_THAT(Staying(pruning, kTree, {0.6f, 0.5f, 0.1f, 0.9f, 0.9f, 0.05f, 0.9f}),
              ElementsAre(0, 1, 2, 3, 4))
      << "a chance as large as the threshold stays";
}

TEST(TreePruning, TheLikeliestWayDownToALeafStays) {
  TreePruning pruning({.threshold = 0.5f, .node_count_min = 0}, 16);
  EXPECT_THAT(Staying(pruning, kTree, {0.02f, 0.3f, 0.4f, 0.9f, 0.01f, 0.01f, 0.9f}),
              ElementsAre(0, 2, 4));
  EXPECT_THAT(Staying(pruning, kTree, {0, 0, 0, 0, 0, 0, 0}), ElementsAre(0, 1, 3))
      << "of equal ones the first child, which the draft would bet on";
}

TEST(TreePruning, LikelyNodesBesideThatWayStay) {
  TreePruning pruning({.threshold = 0.5f, .node_count_min = 0}, 16);
  EXPECT_THAT(Staying(pruning, kTree, {0.02f, 0.7f, 0.6f, 0.9f, 0.01f, 0.01f, 0.9f}),
              ElementsAre(0, 1, 2, 3))
      << "2 is likely after 0, which the way down has kept";
}

TEST(TreePruning, SoManyStayAtLeastTheMostProbableFirst) {
  TreePruning pruning({.threshold = 0.5f, .node_count_min = 5}, 16);
  // The backbone is 0, 1, 3. Then 5, at 0.3; then 6 below it, at 0.12, before 2, at 0.08.
  const Chances chances = {0.4f, 0.3f, 0.2f, 0.3f, 0.4f, 0.3f, 0.4f};
  EXPECT_THAT(Staying(pruning, kTree, chances), ElementsAre(0, 1, 3, 5, 6));
  TreePruning all({.threshold = 0.5f, .node_count_min = 9}, 16);
  EXPECT_EQ(Staying(all, kTree, chances).size(), kTree.size());
}

TEST(TreePruning, NodesThatAreGoneDoNotComeBack) {
  TreePruning pruning({.threshold = 0.1f, .node_count_min = 16}, 16);
  EXPECT_THAT(Staying(pruning, kTree, {0.01f, 0.9f, {}, 0.9f, {}, {}, {}}), ElementsAre(0, 1, 3));
}

// Whatever the tree and the chances.
TEST(TreePruning, WhatStaysIsATreeWithTheBackboneInIt) {
  std::mt19937 random(7);
  TreePruning pruning({.threshold = 0.2f, .node_count_min = 6}, 64);
  for (int round = 0; round < 500; ++round) {
    std::vector<DraftedNode> nodes;
    Chances chances;
    const uint32_t count = 1 + random() % 63;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t above = random() % (i + 1);
      nodes.push_back({static_cast<TokenId>(i), above == 0 ? kRoot : above - 1});
      chances.emplace_back(static_cast<float>(random() % 1000) / 1000);
    }
    const std::span<const bool> stays = pruning.Choose(nodes, chances);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; ++i) {
      kept += stays[i] ? 1 : 0;
      if (nodes[i].parent == kRoot) continue;
      ASSERT_TRUE(!stays[i] || stays[nodes[i].parent]) << "ancestors of what stays, stay";
    }
    ASSERT_GE(kept, std::min(count, 6u));
    std::vector<bool> is_backbone(count);
    for (uint32_t node = kRoot;;) {
      std::optional<uint32_t> best;
      for (uint32_t i = 0; i < count; ++i) {
        if (nodes[i].parent == node && (!best || *chances[i] > *chances[*best])) best = i;
      }
      if (!best) break;
      ASSERT_TRUE(stays[*best]);
      is_backbone[*best] = true;
      node = *best;
    }
    // Where more than the least stay, none has come back: all unlikely edges beside the backbone
    // have gone, and no others.
    for (uint32_t i = 0; i < count && kept > 6; ++i) {
      const bool is_below_one = nodes[i].parent == kRoot || stays[nodes[i].parent];
      const bool is_wanted = is_backbone[i] || *chances[i] >= 0.2f;
      ASSERT_EQ(stays[i], is_below_one && is_wanted);
    }
  }
}

}  // namespace
}  // namespace outrider
