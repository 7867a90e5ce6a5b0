#include "common/model/memory/node_tree.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kChain = NodeTree::kChain;

//  chain (ends at 9) - 4 - 0 - 7
//                    \ 2   \ 3
NodeTree Small() {
  NodeTree tree(8);
  tree.Place(4, kChain, 10);
  tree.Place(2, kChain, 10);
  tree.Place(0, 4, 11);
  tree.Place(7, 0, 12);
  tree.Place(3, 4, 11);
  return tree;
}

std::vector<uint32_t> Slots(const NodeTree& tree) {
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < tree.slot_count(); ++slot) {
    if (tree.Has(slot)) slots.push_back(slot);
  }
  return slots;
}

TEST(NodeTree, AWayDownBeginsBelowTheChain) {
  NodeTree tree = Small();
  EXPECT_THAT(tree.PathTo(7), ElementsAre(4, 0, 7));
  EXPECT_THAT(tree.PathTo(2), ElementsAre(2));
  EXPECT_THAT(tree.PathTo(kChain), ElementsAre());
}

TEST(NodeTree, WhatHangsBelowTheNewEndStays) {
  NodeTree tree = Small();
  tree.MoveEnd(4, 11);
  EXPECT_THAT(Slots(tree), ElementsAre(0, 3, 7));
  EXPECT_THAT(tree.PathTo(7), ElementsAre(0, 7));
  EXPECT_EQ(tree.parent(3), kChain);
  tree.Place(4, 7, 13);  // the slot is free again
  tree.MoveEnd(7, 13);
  EXPECT_THAT(Slots(tree), ElementsAre(4));
  tree.MoveEnd(4, 14);
  EXPECT_THAT(Slots(tree), ElementsAre());
}

TEST(NodeTree, AChainThatGoesOnByItselfDropsWhatHungBelowItsOldEnd) {
  NodeTree tree = Small();
  tree.MoveEnd(kChain, 10);
  EXPECT_THAT(Slots(tree), ElementsAre(0, 2, 3, 4, 7)) << "that is where it ends";
  tree.MoveEnd(kChain, 11);
  EXPECT_THAT(Slots(tree), ElementsAre());
}

}  // namespace
}  // namespace outrider
