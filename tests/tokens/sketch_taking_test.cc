// Which nodes of a sketch a pass takes, and which tokens stand beside it.
#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "common/tokens/sketch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tokens/sketch_growth.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NodeId kRoot = Sketch::kRoot;

std::vector<NodeId> Best(const Sketch& sketch, uint32_t count) {
  Sketch::Taken taken;
  sketch.Take(count, taken);
  return taken.ids;
}

Sketch RandomSketch(std::mt19937& random, uint32_t node_count) {
  Sketch sketch(node_count);
  for (NodeId id = 1; id <= node_count; ++id) {
    const auto token = static_cast<TokenId>(id);
    Grow(sketch, id, static_cast<NodeId>(random() % id), token, 0, random() % 4);
  }
  return sketch;
}

TEST(Sketch, TakesTheLeastDoubtfulNodes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const Sketch sketch = RandomSketch(random, 1 + random() % 40);
    std::vector<std::pair<uint32_t, NodeId>> order;
    for (const Sketch::Node& node : sketch.nodes()) order.emplace_back(node.doubt, node.id);
    std::sort(order.begin(), order.end());
    for (uint32_t count = 0; count <= order.size() + 1; ++count) {
      std::vector<NodeId> expected;
      for (size_t i = 0; i < std::min<size_t>(count, order.size()); ++i) {
        expected.push_back(order[i].second);
      }
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(Best(sketch, count), expected);
    }
  }
}

TEST(Sketch, WhatIsTakenIncludesItsAncestors) {
  std::mt19937 random(2);
  Sketch::Taken taken;
  for (int round = 0; round < 200; ++round) {
    const Sketch sketch = RandomSketch(random, 30);
    sketch.Take(random() % 31, taken);
    ASSERT_EQ(taken.nodes.size(), taken.ids.size());
    for (size_t i = 0; i < taken.ids.size(); ++i) {
      const Sketch::Node& node = *sketch.Find(taken.ids[i]);
      const DraftedNode& drafted = taken.nodes[i];
      ASSERT_EQ(drafted.token, node.token);
      ASSERT_EQ(taken.IdOf(drafted.parent), node.parent);
      ASSERT_TRUE(drafted.parent == DraftedNode::kRoot || drafted.parent < i);
    }
  }
}

TEST(Sketch, BesideAPassStandsWhatItsOutcomesMayComeToNext) {
  Sketch sketch(16);
  Grow(sketch, 1, kRoot, 20, 0, 1);
  Grow(sketch, 2, 1, 21, 0, 1);
  Grow(sketch, 3, 1, 22, 0, 9);      // a sibling that is left out
  Grow(sketch, 4, 2, 23, 0, 4);      // a child that is left out
  Grow(sketch, 5, 4, 24, 0, 1);      // below one that is left out: of no outcome
  Grow(sketch, 6, kRoot, 25, 0, 7);  // and a child of the root
  Grow(sketch, 7, kRoot, 22, 0, 8);  // a token that stands there twice
  Sketch::Taken taken;
  std::vector<TokenId> tokens = {99};
  sketch.Take(2, taken);
  sketch.TokensBeside(taken, tokens);
  EXPECT_THAT(tokens, ElementsAre(23, 25, 22));  // of doubts 6, 7, 8
  sketch.Take(0, taken);
  sketch.TokensBeside(taken, tokens);
  EXPECT_THAT(tokens, ElementsAre(20, 25, 22));
  sketch.Take(7, taken);
  sketch.TokensBeside(taken, tokens);
  EXPECT_THAT(tokens, IsEmpty());
}

}  // namespace
}  // namespace outrider
