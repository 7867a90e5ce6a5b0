#include "common/verification/machine/hint_queue.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

v1::Hint HintOf(uint32_t next, uint32_t probability = 100, uint32_t verdict = 1) {
  v1::Hint hint;
  hint.set_verdict(verdict);
  hint.set_next(next);
  hint.set_probability(probability);
  return hint;
}

std::vector<uint32_t> TakeAll(HintQueue& queue) {
  std::vector<uint32_t> nexts;
  while (!queue.empty()) nexts.push_back(queue.TakeFirst().next());
  return nexts;
}

TEST(HintQueue, TheHighestRankGoesFirstAndOfEqualOnesTheOldest) {
  HintQueue queue;
  queue.Add(HintOf(1), 5);
  queue.Add(HintOf(2), 9);
  queue.Add(HintOf(3), 5);
  queue.Add(HintOf(4), 7);
  EXPECT_THAT(TakeAll(queue), ElementsAre(2, 4, 1, 3));
}

TEST(HintQueue, AnOutcomeIsThereOnceInItsLastWords) {
  HintQueue queue;
  EXPECT_TRUE(queue.Add(HintOf(1, 100), 100));
  EXPECT_TRUE(queue.Add(HintOf(2, 120), 120));
  EXPECT_TRUE(queue.Add(HintOf(1, 200), 200));
  const v1::Hint first = queue.TakeFirst();
  EXPECT_EQ(first.next(), 1u);
  EXPECT_EQ(first.probability(), 200u);
  EXPECT_THAT(TakeAll(queue), ElementsAre(2));
}

TEST(HintQueue, WhatWasJustSaidIsNotSaidAgain) {
  HintQueue queue;
  queue.Add(HintOf(1, 100), 1);
  queue.TakeFirst();
  EXPECT_FALSE(queue.Add(HintOf(1, 100), 1));
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.Add(HintOf(1, 101), 1));     // surer
  EXPECT_TRUE(queue.Add(HintOf(1, 100, 2), 1));  // of another verdict
}

TEST(HintQueue, WhenItIsFullTheLowestRankIsDropped) {
  HintQueue queue;
  for (uint32_t i = 0; i < HintQueue::kMax; ++i) queue.Add(HintOf(i), 10 + i);
  queue.Add(HintOf(100), 50);  // drops 0
  queue.Add(HintOf(101), 1);   // is the lowest itself
  const std::vector<uint32_t> nexts = TakeAll(queue);
  EXPECT_THAT(nexts, ElementsAre(100, 7, 6, 5, 4, 3, 2, 1));
}

TEST(HintQueue, AllThatWaitIsCleared) {
  HintQueue queue;
  queue.Add(HintOf(1), 1);
  queue.Add(HintOf(2), 1);
  EXPECT_EQ(queue.Clear(), 2u);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Clear(), 0u);
}

}  // namespace
}  // namespace outrider
