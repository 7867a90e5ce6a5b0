// Which rows a walk asks the head about, by path and all at once; that what is chosen is the same;
// and walks of which rows have been taken out. The logits are the test's own.
#include "common/engine/answers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kVocabulary = 40;
constexpr uint32_t kRoot = DraftedNode::kRoot;
constexpr uint32_t kRows = 64;

class AnswersTest : public testing::Test {
 protected:
  AnswersTest() {
    info_.vocabulary_size = kVocabulary;
    info_.row_count_max = kRows;
    info_.node_count_max = kRows - 1;
    OUTRIDER_CHECK_OK(history_.Append(std::vector<TokenId>{1, 2, 3}));
  }

  // After row `row` comes `token`.
  void Say(uint32_t row, TokenId token) { tokens_[row] = token; }

  TreeWalk WalkOf(uint32_t root_row, std::span<const DraftedNode> nodes) {
    return {.root_row = root_row, .nodes = nodes, .chooser = &chooser_, .history = &history_};
  }

  // The rows of each band, until all is answered.
  std::vector<std::vector<uint32_t>> Ask(std::vector<TreeWalk>& walks, bool by_path,
                                         const std::vector<uint32_t>& rows,
                                         uint32_t band_rows_max = kRows) {
    Answers answers(info_, band_rows_max, *pool_);
    EngineRun run = {.walks = walks};
    answers.Begin(run, rows, by_path);
    std::vector<std::vector<uint32_t>> bands;
    for (;;) {
      const std::span<const uint32_t> band = answers.NextBand();
      if (band.empty()) return bands;
      std::vector<float> logits(band.size() * kVocabulary, 0.0f);
      std::vector<uint32_t>& asked = bands.emplace_back();
      for (size_t i = 0; i < band.size(); ++i) {
        asked.push_back(rows[band[i]]);
        logits[i * kVocabulary + static_cast<size_t>(tokens_[asked.back()])] = 1;
      }
      answers.Answer({.data = logits.data(),
                      .stride = kVocabulary,
                      .row_count = static_cast<uint32_t>(band.size()),
                      .length = kVocabulary});
    }
  }

  static std::vector<uint32_t> All() {
    std::vector<uint32_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0u);
    return rows;
  }

  EngineInfo info_{};
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  const Chooser chooser_ = OrDie(Chooser::Create({}, kVocabulary));
  TokenHistory history_{{.vocabulary_size = kVocabulary, .capacity = 8}};
  std::vector<TokenId> tokens_ = std::vector<TokenId>(kRows);
};

//  row 10 - 11 (node 0) - 13 (2) - 15 (4)
//         |             \ 14 (3) - 16 (5)
//         \ 12 (1)
const std::vector<DraftedNode> kTree = {{1, kRoot}, {2, kRoot}, {3, 0}, {4, 0}, {5, 2}, {6, 3}};

TEST_F(AnswersTest, ByPathOnlyTheLikelyWayIsAskedAbout) {
  Say(10, 1);
  Say(11, 3);
  Say(13, 9);
  std::vector<TreeWalk> walks = {WalkOf(10, kTree)};
  EXPECT_THAT(Ask(walks, true, All()), ElementsAre(ElementsAre(10, 11, 13, 15)));
  EXPECT_TRUE(walks[0].outcome == (Outcome{2, 9}));
  EXPECT_THAT(Ask(walks, false, All()), ElementsAre(ElementsAre(10, 11, 12, 13, 14, 15, 16)));
  EXPECT_TRUE(walks[0].outcome == (Outcome{2, 9}));
}

TEST_F(AnswersTest, WhereItLeavesThatTheNextRowsAreAskedAbout) {
  Say(10, 1);
  Say(11, 4);
  Say(14, 6);
  Say(16, 7);
  Say(20, 30);
  const std::vector<DraftedNode> chain = {{8, kRoot}};
  std::vector<TreeWalk> walks = {WalkOf(10, kTree), WalkOf(20, chain)};
  EXPECT_THAT(Ask(walks, true, All()),
              ElementsAre(ElementsAre(10, 11, 13, 15, 20, 21), ElementsAre(14, 16)));
  EXPECT_TRUE(walks[0].outcome == (Outcome{5, 7}));
  EXPECT_TRUE(walks[1].outcome == (Outcome{kRoot, 30}));
  // With room for three rows at a time.
  EXPECT_THAT(Ask(walks, true, All(), 3),
              ElementsAre(ElementsAre(10, 11, 13), ElementsAre(14, 16, 20)));
  EXPECT_TRUE(walks[0].outcome == (Outcome{5, 7}));
  EXPECT_TRUE(walks[1].outcome == (Outcome{kRoot, 30}));
}

TEST_F(AnswersTest, RowsThatWereTakenOutCountAsNeverDrafted) {
  Say(10, 1);
  Say(11, 3);
  const std::vector<uint32_t> rows = {9, 10, 11, 14, 16};  // without nodes 1, 2 and 4
  for (const bool by_path : {true, false}) {
    std::vector<TreeWalk> walks = {WalkOf(10, kTree)};
    EXPECT_THAT(Ask(walks, by_path, rows), ElementsAre(ElementsAre(10, 11, 14, 16)));
    EXPECT_TRUE(walks[0].outcome == (Outcome{0, 3})) << "the target's own word, which has no node";
  }
}

TEST_F(AnswersTest, EitherWayTheOutcomesAreTheSame) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<DraftedNode>> trees(3);
    std::vector<TreeWalk> walks;
    uint32_t row = 0;
    for (std::vector<DraftedNode>& tree : trees) {
      const uint32_t count = random() % 20;
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t above = random() % (i + 1);
        // The same token twice below one node would be one node.
        tree.push_back({static_cast<TokenId>(i % kVocabulary), above == 0 ? kRoot : above - 1});
      }
      walks.push_back(WalkOf(row, tree));
      row += 1 + count;
    }
    for (TokenId& token : tokens_) token = static_cast<TokenId>(random() % 20);
    std::vector<uint32_t> rows;
    for (uint32_t i = 0; i < kRows; ++i) {
      const bool is_root = std::ranges::count(walks, i, &TreeWalk::root_row) > 0;
      if (is_root || random() % 4 > 0) rows.push_back(i);
    }
    // What hangs below a row that is not there is not there.
    for (const TreeWalk& walk : walks) {
      for (uint32_t i = 0; i < walk.nodes.size(); ++i) {
        const uint32_t parent = walk.nodes[i].parent;
        if (parent == kRoot) continue;
        if (std::ranges::count(rows, walk.root_row + 1 + parent) > 0) continue;
        std::erase(rows, walk.root_row + 1 + i);
      }
    }
    Ask(walks, false, rows);
    std::vector<Outcome> expected;
    for (const TreeWalk& walk : walks) expected.push_back(walk.outcome);
    for (const uint32_t room : {21u, kRows}) {
      for (TreeWalk& walk : walks) walk.outcome = {};
      Ask(walks, true, rows, room);
      for (size_t i = 0; i < walks.size(); ++i) ASSERT_TRUE(walks[i].outcome == expected[i]);
    }
  }
}

}  // namespace
}  // namespace outrider
