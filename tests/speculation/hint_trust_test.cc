#include "common/speculation/drafting/hint_trust.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr NodeId kLeaf = 3;
constexpr TokenId kNext = 7;

LiveHint HintOf(double probability, uint32_t exit = 0) {
  return {.leaf = kLeaf, .next = kNext, .probability = probability, .exit = exit};
}

// As if `right` of as many verdicts.
void Teach(HintTrust& trust, double claim, double prior, double right, uint32_t exit = 0) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    trust.Believed(HintOf(claim, exit), prior);
    const bool is_right = std::uniform_real_distribution<>()(random) < right;
    trust.Learn(kLeaf, is_right ? kNext : kNext + 1);
  }
}

TEST(HintTrust, WeighsTheDraftsWordAndTheExits) {
  HintTrust trust;
  EXPECT_GT(trust.Believed(HintOf(0.7), 0.8), 0.8) << "they agree";
  EXPECT_LT(trust.Believed(HintOf(0.7), 0.05), 0.4) << "the draft knows better";
  EXPECT_LT(trust.Believed(HintOf(0.2), 0.5), trust.Believed(HintOf(0.8), 0.5));
  EXPECT_LT(trust.Believed(HintOf(0.5), 0.2), trust.Believed(HintOf(0.5), 0.8));
}

TEST(HintTrust, LearnsHowOftenAnExitIsRight) {
  for (const double right : {0.02, 0.3, 0.9, 0.98}) {
    HintTrust trust;
    Teach(trust, 0.6, 0.3, right);
    EXPECT_NEAR(trust.Believed(HintOf(0.6), 0.3), right, 0.1) << right;
  }
}

TEST(HintTrust, LearnsWhomToBelieve) {
  // Where the draft is sure its child is right, whatever the exit claims, and never where it is not.
  HintTrust trust;
  for (int i = 0; i < 50; ++i) {
    Teach(trust, i % 2 == 0 ? 0.9 : 0.1, 0.9, 0.95);
    Teach(trust, i % 2 == 0 ? 0.1 : 0.9, 0.1, 0.05);
  }
  EXPECT_GT(trust.Believed(HintOf(0.1), 0.9), 0.85);
  EXPECT_LT(trust.Believed(HintOf(0.9), 0.1), 0.15);
}

TEST(HintTrust, EachExitHasItsOwn) {
  for (const uint32_t taught : {0U, 1U}) {
    HintTrust trust;
    const double before = trust.Believed(HintOf(0.6, 1 - taught), 0.3);
    trust.Forget();
    Teach(trust, 0.6, 0.3, 0.98, taught);
    EXPECT_EQ(trust.Believed(HintOf(0.6, 1 - taught), 0.3), before);
    EXPECT_GT(trust.Believed(HintOf(0.6, taught), 0.3), 0.9);
  }
}

// Nor is an outcome right because its leaf or its token is.
TEST(HintTrust, WhatIsForgottenTeachesNothing) {
  HintTrust trust;
  const double before = trust.Believed(HintOf(0.6), 0.3);
  trust.Forget();
  trust.Learn(kLeaf, kNext);
  EXPECT_EQ(trust.Believed(HintOf(0.6), 0.3), before);
  trust.Learn(kLeaf + 1, kNext);
  EXPECT_LT(trust.Believed(HintOf(0.6), 0.3), before);
}

// As many hints as a server likes, of exits it never had.
TEST(HintTrust, StaysAProbabilityWhateverIsClaimed) {
  HintTrust trust;
  for (int i = 0; i < 10000; ++i) {
    const double claim = i % 3 / 2.0;
    const double believed = trust.Believed(HintOf(claim, UINT32_MAX - i % 2), i % 5 / 4.0);
    ASSERT_GT(believed, 0);
    ASSERT_LT(believed, 1);
    if (i % 40 == 0) trust.Learn(i % 80 == 0 ? kLeaf : 0, kNext);
  }
}

}  // namespace
}  // namespace outrider
