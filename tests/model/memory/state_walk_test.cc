#include "common/model/memory/state_walk.h"

#include <array>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/memory/marked_memory.h"

namespace outrider {
namespace {

constexpr uint32_t kChain = NodeTree::kChain;
constexpr SequenceLimits kLimits = {.length_max = 400, .node_count_max = 64, .row_count_max = 100};

class StateWalkTest : public testing::Test {
 protected:
  // "advance 0, keep 0, ...": rows of the batch by number, those of earlier runs as "-".
  std::string Steps() {
    marked_.walks.Plan(marked_.batch);
    std::string text;
    for (const StateStep& step : marked_.walks.steps(0)) {
      const std::string row = step.row == Batch::kNoRow ? "-" : std::to_string(step.row);
      switch (step.kind) {
        case StateStep::Kind::kAdvance:
          text += row;
          break;
        case StateStep::Kind::kKeep:
          text += "keep" + std::to_string(step.level);
          break;
        case StateStep::Kind::kReturn:
          text += "return" + std::to_string(step.level);
          break;
      }
      text += ' ';
    }
    return text;
  }

  MarkedMemory marked_{MarkedMemory::EveryKind(), kLimits, std::array{30u, 30u, 30u, 30u, 4u}};
  std::unique_ptr<SequenceMemory> memory_ = marked_.New();
};

TEST_F(StateWalkTest, AChainNeedsNoCopies) {
  OUTRIDER_CHECK_OK(memory_->Reserve(3, 2));
  marked_.batch.AddChain(*memory_, std::array<TokenId, 3>{1, 2, 3});
  marked_.batch.AddNode(*memory_, 4, kChain, 1);
  marked_.batch.AddNode(*memory_, 5, 1, 0);
  EXPECT_EQ(Steps(), "0 1 2 3 4 ");
  EXPECT_EQ(marked_.walks.kept_count_max(), 0u);
}

TEST_F(StateWalkTest, TheChildWithMostBelowItComesLastAndTakesTheState) {
  OUTRIDER_CHECK_OK(memory_->Reserve(1, 8));
  marked_.batch.AddChain(*memory_, std::array<TokenId, 1>{1});
  //  0 - 1 - 3 - 5
  //    \ 2   \ 4
  for (const auto& [slot, parent] :
       {std::pair{0u, kChain}, {1u, kChain}, {2u, 0u}, {3u, 0u}, {4u, 2u}}) {
    marked_.batch.AddNode(*memory_, 2, parent, slot);
  }
  EXPECT_EQ(Steps(), "0 keep0 2 return0 1 keep0 4 return0 3 5 ");
  EXPECT_EQ(marked_.walks.kept_count_max(), 1u);
}

TEST_F(StateWalkTest, WhatEarlierRunsComputedIsTakenInAgain) {
  OUTRIDER_CHECK_OK(memory_->Reserve(2, 8));
  marked_.batch.AddChain(*memory_, std::array<TokenId, 1>{1});
  marked_.batch.AddNode(*memory_, 2, kChain, 0);
  marked_.batch.AddNode(*memory_, 2, kChain, 1);
  marked_.batch.Clear();
  marked_.batch.AddNode(*memory_, 3, 0, 5);
  EXPECT_EQ(Steps(), "- - 0 ") << "the chain, the node above, and nothing else";
  memory_->Commit(1, {{0}});
  marked_.batch.Clear();
  marked_.batch.AddNode(*memory_, 3, 5, 2);
  EXPECT_EQ(Steps(), "- 0 ");
}

// The most that are kept: a tree whose every node has two children of the same size.
TEST_F(StateWalkTest, AsManyStatesAreKeptAsTheTreesSizeHasDigits) {
  OUTRIDER_CHECK_OK(memory_->Reserve(1, 63));
  marked_.batch.AddChain(*memory_, std::array<TokenId, 1>{1});
  for (uint32_t slot = 0; slot < 62; ++slot) {
    marked_.batch.AddNode(*memory_, 2, slot < 2 ? kChain : slot / 2 - 1, slot);
  }
  Steps();
  EXPECT_EQ(marked_.walks.kept_count_max(), 5u);
  EXPECT_EQ(marked_.walks.steps(0).size(), 63u + 31u + 31u);
}

}  // namespace
}  // namespace outrider
