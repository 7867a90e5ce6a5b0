#include "common/tokens/maximum.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Around the lanes and blocks of the implementation, and far from them.
constexpr size_t kSizes[] = {1, 2, 15, 16, 17, 2047, 2048, 2049, 4096, 5000};

TEST(Maximum, IsFoundWhereverItStands) {
  for (const size_t size : kSizes) {
    std::vector<float> logits(size, -3);
    for (size_t at = 0; at < size; at += 1 + at / 8) {
      logits[at] = -2.5;
      const Maximum maximum = FindMaximum(logits);
      EXPECT_EQ(maximum.value, -2.5);
      EXPECT_EQ(maximum.token, static_cast<TokenId>(at));
      EXPECT_TRUE(maximum.sound);
      logits[at] = -3;
    }
  }
}

TEST(Maximum, OfEqualOnesTheLowestIdCounts) {
  std::mt19937 random(1);
  for (const size_t size : kSizes) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> logits(size);
      size_t first = size;
      for (size_t i = 0; i < size; ++i) {
        logits[i] = static_cast<float>(random() % 3);
        if (first == size || logits[i] > logits[first]) first = i;
      }
      EXPECT_EQ(FindMaximum(logits).token, static_cast<TokenId>(first));
    }
  }
}

TEST(Maximum, ZerosOfBothSignsAreEqual) {
  EXPECT_EQ(FindMaximum(std::vector<float>{-1, -0.0f, 0.0f}).token, 1);
  EXPECT_EQ(FindMaximum(std::vector<float>{-1, 0.0f, -0.0f}).token, 1);
}

TEST(Maximum, OneBadLogitAnywhereIsNoticed) {
  for (const size_t size : kSizes) {
    std::vector<float> logits(size, 1);
    for (size_t at = 0; at < size; at += 1 + at / 8) {
      for (const float bad : {kNaN, -kNaN, kInfinity}) {
        logits[at] = bad;
        EXPECT_FALSE(FindMaximum(logits).sound) << bad << " at " << at << " of " << size;
      }
      logits[at] = -kInfinity;  // impossible, but sound
      EXPECT_TRUE(FindMaximum(logits).sound);
      logits[at] = 1;
    }
  }
}

TEST(Maximum, NothingPossibleIsMinusInfinity) {
  for (const size_t size : kSizes) {
    const Maximum maximum = FindMaximum(std::vector<float>(size, -kInfinity));
    EXPECT_EQ(maximum.value, -kInfinity);
    EXPECT_EQ(maximum.token, 0);
    EXPECT_TRUE(maximum.sound);
  }
  EXPECT_EQ(FindMaximum({}).value, -kInfinity);
}

}  // namespace
}  // namespace outrider
