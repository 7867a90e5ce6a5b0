#include "common/tokens/outcome.h"

#include <random>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using Path = std::vector<TokenId>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kRoot = DraftedNode::kRoot;

// The target chooses 1, 2, 3, ...
absl::StatusOr<TokenId> Count(uint32_t /*node*/, std::span<const TokenId> path) {
  return static_cast<TokenId>(path.size() + 1);
}

TEST(WalkDown, GoesDownForAsLongAsAChildIsChosen) {
  const std::vector<DraftedNode> nodes = {{9, kRoot}, {1, kRoot}, {2, 0}, {2, 1}, {4, 3}, {3, 2}};
  Path path = {77};
  const absl::StatusOr<Outcome> outcome = WalkDown(nodes, path, Count);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->node, 3);
  EXPECT_EQ(outcome->next, 3);
  EXPECT_THAT(path, ElementsAre(1, 2));
}

TEST(WalkDown, WithoutNodesIsOrdinaryDecoding) {
  Path path = {77};
  const absl::StatusOr<Outcome> outcome = WalkDown({}, path, Count);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->node, kRoot);
  EXPECT_EQ(outcome->next, 1);
  EXPECT_THAT(path, IsEmpty());
}

TEST(WalkDown, AsksAlongTheAcceptedPathOnlyAndTellsWhere) {
  const std::vector<DraftedNode> nodes = {{5, kRoot}, {1, kRoot}, {8, 0}, {2, 1}};
  Path path;
  std::vector<uint32_t> asked;
  const auto choose = [&](uint32_t node, std::span<const TokenId> down) -> absl::StatusOr<TokenId> {
    asked.push_back(node);
    EXPECT_EQ(down.empty() ? kRoot : down.size(), node == kRoot ? kRoot : (node + 1) / 2);
    return Count(node, down);
  };
  ASSERT_TRUE(WalkDown(nodes, path, choose).ok());
  EXPECT_THAT(asked, ElementsAre(kRoot, 1, 3));
}

TEST(WalkDown, EndsAtTheFirstErrorAndOnlyAtOneOnTheWay) {
  const std::vector<DraftedNode> nodes = {{1, kRoot}, {7, 0}, {2, 0}};
  Path path;
  const auto broken_at = [&](uint32_t bad) {
    return WalkDown(nodes, path,
                    [&](uint32_t node, std::span<const TokenId> down) -> absl::StatusOr<TokenId> {
                      if (node == bad) return FailedPrecondition("node ", node, " is broken");
                      return Count(node, down);
                    });
  };
  EXPECT_TRUE(broken_at(1).ok());
  EXPECT_EQ(Message(broken_at(2).status()), "node 2 is broken");
  EXPECT_EQ(Message(broken_at(0).status()), "node 0 is broken");
}

}  // namespace
}  // namespace outrider
