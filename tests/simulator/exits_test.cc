#include "bench/simulator/sources/exits.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr std::vector<DraftedNode> Tree() {
  return {{10, DraftedNode::kRoot}, {11, 0}, {12, 0}, {13, DraftedNode::kRoot}};
}

// How often exit `index` is right about an outcome, and about the pass of the exit before it.
struct Record {
  double right = 0;
  double also_before = 0;  // of those that were right at the exit before
  double before = 0;
};

Record Observe(const SyntheticExits& exits, size_t index) {
  Record record;
  const std::vector<DraftedNode> tree = Tree();
  TokenHistory history({.vocabulary_size = 1000, .capacity = 20000});
  const Outcome truth{1, 77};
  const auto is_right = [&](const Exits::Hint& hint) {
    return hint.outcome.node == truth.node && hint.outcome.next == truth.next;
  };
  for (TokenId i = 0; i < 10000; ++i) {
    const TokenId token = i % 1000;
    EXPECT_TRUE(history.Append({&token, 1}).ok());
    const bool right = is_right(exits.Guess(index, RootOf(history), tree, truth));
    record.right += right / 10000.0;
    if (index == 0) continue;
    const bool before = is_right(exits.Guess(index - 1, RootOf(history), tree, truth));
    record.before += before;
    record.also_before += before && right;
  }
  return record;
}

absl::StatusOr<SyntheticExits> Parse(std::string_view text) {
  return SyntheticExits::Parse(text, 1, 1000);
}

TEST(Exits, AreRightAsOftenAsAskedAndMoreSoWithDepth) {
  const absl::StatusOr<SyntheticExits> exits = Parse("0.5:0.4,0.75:0.7");
  ASSERT_TRUE(exits.ok()) << exits.status();
  EXPECT_NEAR(Observe(*exits, 0).right, 0.4, 0.02);  // four standard errors
  const Record deeper = Observe(*exits, 1);
  EXPECT_NEAR(deeper.right, 0.7, 0.02);
  EXPECT_EQ(deeper.also_before, deeper.before);
}

TEST(Exits, SayHowOftenTheyAreRight) {
  const absl::StatusOr<SyntheticExits> exits = Parse("0.5:0.4");
  const std::vector<DraftedNode> tree = Tree();
  const TokenHistory history({.vocabulary_size = 1000, .capacity = 1});
  EXPECT_EQ(exits->Guess(0, RootOf(history), tree, {1, 77}).probability, 0.4);
}

TEST(Exits, LiarsAreSureAndAlwaysWrong) {
  const absl::StatusOr<SyntheticExits> exits = Parse("lying:0.5");
  ASSERT_TRUE(exits.ok()) << exits.status();
  EXPECT_EQ(Observe(*exits, 0).right, 0);
  const TokenHistory history({.vocabulary_size = 1000, .capacity = 1});
  EXPECT_GT(exits->Guess(0, RootOf(history), {}, {DraftedNode::kRoot, 5}).probability, 0.9);
}

// Even wrong guesses are outcomes that could be: the next token is no child of the leaf.
TEST(Exits, GuessOutcomesThatCouldBe) {
  const absl::StatusOr<SyntheticExits> exits = SyntheticExits::Parse("0.5:0", 1, 16);
  const std::vector<DraftedNode> tree = Tree();
  TokenHistory history({.vocabulary_size = 16, .capacity = 1000});
  for (TokenId i = 0; i < 1000; ++i) {
    const TokenId token = i % 16;
    ASSERT_TRUE(history.Append({&token, 1}).ok());
    const Outcome guess = exits->Guess(0, RootOf(history), tree, {1, 7}).outcome;
    ASSERT_TRUE(guess.node == DraftedNode::kRoot || guess.node < tree.size());
    for (const DraftedNode& node : tree) {
      EXPECT_FALSE(node.parent == guess.node && node.token == guess.next);
    }
  }
}

TEST(Exits, RefuseWhatIsNoExit) {
  for (const std::string_view text : {"", "0.5", "0:0.5", "1:0.5", "0.5:1.1", "0.5:0.1,0.4:0.2",
                                      "lying:0.5:0.3", "lying:", "0.5:x"}) {
    EXPECT_FALSE(Parse(text).ok()) << text;
  }
  EXPECT_TRUE(Parse("none").ok());
}

}  // namespace
}  // namespace outrider
