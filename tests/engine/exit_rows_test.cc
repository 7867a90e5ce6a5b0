// Which rows of a run an exit looks at: those of its walks that are still there.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "common/engine/exit_heads.h"
#include "gtest/gtest.h"
#include "tests/engine/exit_heads.h"

namespace outrider {
namespace {

// Heads on a bench: what they are shown and what they are told of is the test's own affair.
class ShownExitHeads : public ExitHeadsTest {
 protected:
  static constexpr uint32_t kEmbedding = 256;

  ShownExitHeads() {
    Write("llama", TensorType::kQ8_0);
    model_ = std::make_unique<LoadedModel>(path_);
    heads_ = OrDie(ExitHeads::Create(Exits(0.2f, {1}), "exits",
                                     {.spec = model_->spec,
                                      .info = target_->engine().info(),
                                      .head = &model_->weights->head(),
                                      .kernels = KernelsFor(BestIsa()),
                                      .pool = *pool_},
                                     {}, keeper_));
    std::mt19937 random(7);
    states_.resize(size_t{kRows} * kEmbedding);
    for (float& state : states_) state = static_cast<float>(random() % 2001) / 1000 - 1;
  }

  // Only some of the rows are left in the run.
  std::vector<ExitGuess> Show(const std::vector<TreeWalk>& walks,
                              const std::vector<uint32_t>& rows) {
    guesses_.clear();
    std::vector<float> left;
    for (const uint32_t row : rows) {
      const auto first = states_.begin() + ptrdiff_t{row} * kEmbedding;
      left.insert(left.end(), first, first + kEmbedding);
    }
    const auto dropped = std::make_unique<bool[]>(rows.size());
    LayerView view(rows, left.data(), kEmbedding, kEmbedding, {dropped.get(), rows.size()});
    heads_->BeginRun(walks);
    heads_->AfterLayer(1, view);
    return guesses_;
  }

  static constexpr uint32_t kRows = 40;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<ExitHeads> heads_;
  std::vector<float> states_;
  const Chooser chooser_ = OrDie(Chooser::Create({}, kVocabulary));
  TokenHistory history_{{.vocabulary_size = kVocabulary, .capacity = 8}};
};

std::vector<uint32_t> RowsBetween(uint32_t first, uint32_t end) {
  std::vector<uint32_t> rows;
  for (uint32_t row = first; row < end; ++row) rows.push_back(row);
  return rows;
}

TEST_F(ShownExitHeads, RowsOfNoWalkAreLeftAlone) {
  const std::vector<DraftedNode> nodes = BushyTree(1, 9);
  const TreeWalk walk = {
      .root_row = 17, .nodes = nodes, .chooser = &chooser_, .history = &history_};
  const auto beside = Show({walk}, RowsBetween(0, kRows));
  const auto alone = Show({walk}, RowsBetween(17, 27));
  ASSERT_EQ(beside.size(), 1u);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(beside[0].outcome == alone[0].outcome);
  EXPECT_EQ(beside[0].probability, alone[0].probability);
}

TEST_F(ShownExitHeads, AWalkWhoseRootWasDroppedIsNotGuessed) {
  const std::vector<DraftedNode> nodes = BushyTree(1, 9);
  const TreeWalk gone = {.root_row = 3, .nodes = nodes, .chooser = &chooser_, .history = &history_};
  const TreeWalk here = {
      .root_row = 17, .nodes = nodes, .chooser = &chooser_, .history = &history_};
  const auto alone = Show({gone, here}, RowsBetween(17, 27));
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].walk, 1u);
  EXPECT_TRUE(Show({gone}, RowsBetween(17, 27)).empty());
  EXPECT_TRUE(Show({gone, here}, {}).empty());
}

// A row that was dropped takes those below it with it.
TEST_F(ShownExitHeads, ANodeThatWasDroppedCountsAsNeverDrafted) {
  TreeWalk walk = {.root_row = 5, .nodes = {}, .chooser = &chooser_, .history = &history_};
  const TokenId chosen = Show({walk}, RowsBetween(0, kRows))[0].outcome.next;
  const std::vector<DraftedNode> nodes = {
      {8, DraftedNode::kRoot}, {chosen, DraftedNode::kRoot}, {9, 1}, {9, 0}};
  walk.nodes = nodes;
  EXPECT_NE(Show({walk}, RowsBetween(0, kRows))[0].outcome.node, DraftedNode::kRoot);
  const Outcome cut = Show({walk}, {0, 1, 2, 3, 4, 5, 6, 9})[0].outcome;
  EXPECT_EQ(cut.node, DraftedNode::kRoot);
  EXPECT_EQ(cut.next, chosen);
}

}  // namespace
}  // namespace outrider
