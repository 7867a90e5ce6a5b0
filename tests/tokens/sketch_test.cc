// What a sketch holds after growth, commits and prunes, in whatever order they come, and what it refuses.
#include "common/tokens/sketch.h"

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tokens/sketch_growth.h"

namespace outrider {
namespace {

using Fate = Sketch::Fate;
using Path = std::vector<TokenId>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NodeId kRoot = Sketch::kRoot;

Path Commit(Sketch& sketch, NodeId leaf, TokenId next) {
  Path committed;
  sketch.Commit(leaf, next, committed);
  return committed;
}

std::vector<NodeId> Ids(const Sketch& sketch) {
  std::vector<NodeId> ids;
  for (const Sketch::Node& node : sketch.nodes()) ids.push_back(node.id);
  return ids;
}

// The picture in sketch.h: "the" 1, "cat" 2, "sat" 3 below it, "on" below each.
constexpr TokenId kThe = 10, kCat = 11, kSat = 12, kOn = 13;

Sketch Picture() {
  Sketch sketch(16);
  Grow(sketch, 1, kRoot, kThe);
  Grow(sketch, 2, 1, kCat);
  return sketch;
}

TEST(Sketch, KeepsTheWayDownToEveryNode) {
  Sketch sketch = Picture();
  EXPECT_EQ(Grow(sketch, 5, 2, kOn, 0, 4), Fate::kGrown);
  EXPECT_THAT(sketch.nodes(),
              ElementsAre(Sketch::Node{1, kRoot, kThe, 1, 1}, Sketch::Node{2, 1, kCat, 2, 2},
                          Sketch::Node{5, 2, kOn, 3, 6}));
  Path path = {99};
  sketch.PathTo(5, path);
  EXPECT_THAT(path, ElementsAre(kThe, kCat, kOn));
  sketch.PathTo(kRoot, path);
  EXPECT_THAT(path, IsEmpty());
  EXPECT_EQ(sketch.Child(1, kCat), sketch.Find(2));
  EXPECT_EQ(sketch.Child(1, kOn), nullptr);
  EXPECT_EQ(sketch.Find(3), nullptr);
  EXPECT_EQ(sketch.last_id(), 5);
}

TEST(Sketch, ATokenBelowTheSameParentIsTheSameNodeUnderASecondId) {
  Sketch sketch = Picture();
  EXPECT_EQ(Grow(sketch, 3, 1, kCat, 0, 9), Fate::kKnown);
  EXPECT_THAT(Ids(sketch), ElementsAre(1, 2));
  EXPECT_EQ(sketch.Find(3), sketch.Find(2));
  EXPECT_EQ(Grow(sketch, 4, 3, kSat), Fate::kGrown);
  EXPECT_EQ(sketch.Find(4)->parent, 2);
  EXPECT_EQ(sketch.Find(4)->doubt, 3);  // the doubt that came first
  EXPECT_EQ(sketch.Child(3, kSat), sketch.Find(4));
  EXPECT_THAT(Commit(sketch, 3, kSat), ElementsAre(kThe, kCat, kSat));
  EXPECT_EQ(Grow(sketch, 5, 4, kOn), Fate::kGrown);  // 4 is the root
  EXPECT_EQ(sketch.Find(5)->parent, kRoot);
}

TEST(Sketch, ACommitKeepsWhatIsBelowNext) {
  Sketch sketch = Picture();
  Grow(sketch, 3, 2, kOn, 0, 3);
  Grow(sketch, 4, 1, kSat);
  Grow(sketch, 5, 4, kOn);
  Grow(sketch, 6, 3, kThe, 0, 7);
  Path committed = {7};
  sketch.Commit(1, kCat, committed);
  EXPECT_THAT(committed, ElementsAre(7, kThe, kCat));
  EXPECT_THAT(sketch.nodes(),
              ElementsAre(Sketch::Node{3, kRoot, kOn, 1, 3}, Sketch::Node{6, 3, kThe, 2, 10}));
  EXPECT_EQ(sketch.commit_count(), 1);
  EXPECT_EQ(sketch.way_length(), 2);
}

TEST(Sketch, ACommitOfANextNobodyDraftedLeavesNothing) {
  Sketch sketch = Picture();
  EXPECT_THAT(Commit(sketch, 2, kSat), ElementsAre(kThe, kCat, kSat));
  EXPECT_THAT(sketch.nodes(), IsEmpty());
  EXPECT_THAT(Commit(sketch, kRoot, kOn), ElementsAre(kOn));
  EXPECT_EQ(sketch.commit_count(), 2);
}

TEST(Sketch, LateGrowthIsWalkedDownTheWay) {
  Sketch sketch = Picture();
  Commit(sketch, 2, kSat);
  EXPECT_EQ(Grow(sketch, 3, 2, kOn), Fate::kEvaporated);
  EXPECT_FALSE(sketch.Grow({3, kRoot, kOn, 1}, 0).ok());   // that id is gone
  EXPECT_EQ(Grow(sketch, 4, 3, kThe), Fate::kEvaporated);  // below what is gone
  EXPECT_EQ(Grow(sketch, 5, 2, kSat), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 6, 5, kOn), Fate::kGrown);
  EXPECT_EQ(sketch.Find(6)->parent, kRoot);
  EXPECT_EQ(sketch.Child(5, kOn), sketch.Find(6));
  EXPECT_EQ(sketch.Child(2, kOn), nullptr);               // its only child is the root
  EXPECT_EQ(Grow(sketch, 7, kRoot, kThe), Fate::kKnown);  // the root as it was
  EXPECT_EQ(Grow(sketch, 8, 7, kCat), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 9, 8, kSat), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 10, 9, kOn), Fate::kKnown);
  EXPECT_EQ(sketch.Find(10), sketch.Find(6));
  EXPECT_EQ(Grow(sketch, 11, kRoot, kThe, 1), Fate::kGrown);  // the root as it is
}

TEST(Sketch, WhatItsSenderHasSeenIsForgotten) {
  Sketch sketch = Picture();
  Commit(sketch, 1, kCat);
  Commit(sketch, kRoot, kSat);
  Commit(sketch, kRoot, kOn);
  EXPECT_EQ(sketch.way_length(), 4);
  EXPECT_EQ(Grow(sketch, 3, 2, kSat, 1), Fate::kKnown);  // 2 is the root that the sender knows
  EXPECT_EQ(sketch.way_length(), 2);
  EXPECT_EQ(Grow(sketch, 4, 1, kCat, 1), Fate::kEvaporated);  // above it
  EXPECT_EQ(Grow(sketch, 5, kRoot, kOn, 2), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 6, 5, kThe, 3), Fate::kGrown);
  EXPECT_EQ(sketch.way_length(), 0);
}

TEST(Sketch, PruningDropsANodeAndAllBelowIt) {
  Sketch sketch = Picture();
  Grow(sketch, 3, 2, kOn);
  Grow(sketch, 4, 1, kSat);
  Grow(sketch, 5, 1, kCat);
  sketch.Prune(5);  // a second id of 2
  EXPECT_THAT(Ids(sketch), ElementsAre(1, 4));
  EXPECT_EQ(Grow(sketch, 6, 2, kThe), Fate::kEvaporated);
  EXPECT_EQ(Grow(sketch, 7, 5, kThe), Fate::kEvaporated);
  EXPECT_EQ(Grow(sketch, 8, 1, kCat), Fate::kGrown);  // another node now
  sketch.Prune(2);
  sketch.Prune(77);
  sketch.Prune(kRoot);
  EXPECT_THAT(Ids(sketch), ElementsAre(1, 4, 8));
  Commit(sketch, 1, kCat);
  sketch.Prune(1);
  sketch.Prune(8);
  EXPECT_EQ(Grow(sketch, 9, 8, kOn), Fate::kGrown);  // the way and the root stay
}

TEST(Sketch, AResetBeginsAnew) {
  Sketch sketch = Picture();
  Commit(sketch, 1, kSat);
  sketch.Reset(7);
  EXPECT_THAT(sketch.nodes(), IsEmpty());
  EXPECT_EQ(sketch.commit_count(), 7);
  EXPECT_EQ(sketch.way_length(), 0);
  EXPECT_EQ(sketch.Grow({1, kRoot, kThe, 1}, 6).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Grow(sketch, 1, kRoot, kThe, 7), Fate::kGrown);
}

std::string Refusal(Sketch& sketch, const Sketch::Growth& growth, uint32_t seen) {
  const std::vector<Sketch::Node> before(sketch.nodes().begin(), sketch.nodes().end());
  const NodeId last_id = sketch.last_id();
  const absl::StatusOr<Fate> fate = sketch.Grow(growth, seen);
  EXPECT_FALSE(fate.ok());
  EXPECT_EQ(std::vector(sketch.nodes().begin(), sketch.nodes().end()), before);
  EXPECT_EQ(sketch.last_id(), last_id);
  return std::string(Message(fate.status()));
}

TEST(Sketch, GrowthThatCannotBeIsRefusedInASentence) {
  Sketch sketch = Picture();
  Commit(sketch, kRoot, kThe);
  Commit(sketch, kRoot, kCat);
  EXPECT_EQ(Refusal(sketch, {2, 1, kOn, 0}, 0), "node 2 comes after node 2; ids rise strictly");
  EXPECT_EQ(Refusal(sketch, {0, 0, kOn, 0}, 0), "node 0 comes after node 2; ids rise strictly");
  EXPECT_EQ(Refusal(sketch, {5, 5, kOn, 0}, 0),
            "node 5 has node 5 as its parent, which does not come before it");
  EXPECT_EQ(Refusal(sketch, {5, 1, kOn, 16}, 0),
            "node 5 has a doubt of 16; that of an edge is at most 15");
  EXPECT_EQ(Refusal(sketch, {5, 1, kOn, 0}, 3),
            "node 5 was sent after 3 commits were seen, and there have been 2");
  Grow(sketch, 3, kRoot, kOn, 2);
  EXPECT_EQ(Refusal(sketch, {5, 3, kOn, 0}, 1),
            "node 5 was sent after 1 commits were seen, and one before it after 2");
}

TEST(Sketch, IsBoundedInNodesAndSecondIds) {
  Sketch sketch(2);
  Grow(sketch, 1, kRoot, kThe);
  Grow(sketch, 2, 1, kCat);
  EXPECT_EQ(Refusal(sketch, {3, 1, kSat, 0}, 0), "node 3 does not fit into a sketch of 2 nodes");
  EXPECT_EQ(Grow(sketch, 3, 1, kCat), Fate::kKnown);
  NodeId id = 4;
  for (; id < 100 && sketch.Grow({id, kRoot, kThe, 0}, 0).ok();) ++id;
  EXPECT_GE(id, 5);
  EXPECT_LE(id, 10);
  EXPECT_EQ(Refusal(sketch, {id, kRoot, kThe, 0}, 0),
            "node " + std::to_string(id) +
                " is known already, and a sketch of 2 nodes has no room for more second ids");
  Commit(sketch, 1, kSat);
  EXPECT_EQ(Grow(sketch, id, kRoot, kOn, 1), Fate::kGrown);  // and what it has seen is forgotten
}

TEST(Sketch, AWayTooLongForgetsItsBeginning) {
  Sketch sketch(3);
  for (TokenId token = 0; token < 6; ++token) Commit(sketch, kRoot, token);
  EXPECT_EQ(sketch.way_length(), 4);
  EXPECT_EQ(Grow(sketch, 1, kRoot, 0, 0), Fate::kEvaporated);
  EXPECT_EQ(Grow(sketch, 2, kRoot, 2, 1), Fate::kEvaporated);  // it is not what came next
  EXPECT_EQ(Grow(sketch, 3, kRoot, 2, 2), Fate::kKnown);
}

// A commit may be longer than all of the way there is room for besides.
TEST(Sketch, TheLongestCommitIsRemembered) {
  Sketch sketch(3);
  Commit(sketch, kRoot, kThe);
  for (NodeId id = 1; id <= 3; ++id) Grow(sketch, id, id - 1, kOn, 1);
  EXPECT_THAT(Commit(sketch, 3, kCat), ElementsAre(kOn, kOn, kOn, kCat));
  EXPECT_EQ(Grow(sketch, 4, kRoot, kOn, 1), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 5, 3, kCat, 1), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 6, 5, kSat, 1), Fate::kGrown);
}

}  // namespace
}  // namespace outrider
