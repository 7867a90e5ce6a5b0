#include "common/speculation/costs/cost_model.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(LatencyProfile, IsTheAssumedLineUntilItIsMeasured) {
  const LatencyProfile profile(30, 0.5);
  EXPECT_DOUBLE_EQ(profile.Estimate({0, 0}), 30);
  EXPECT_DOUBLE_EQ(profile.Estimate({16, 5}), 38);
}

TEST(LatencyProfile, IsWhatWasMeasuredAndOneWildValueMovesNothing) {
  LatencyProfile profile(30, 0.5);
  for (const double ms : {50.0, 52.0, 900.0, 51.0, 49.0}) profile.Add({8, 3}, ms);
  EXPECT_NEAR(profile.Estimate({8, 3}), 51, 1e-9);
}

TEST(LatencyProfile, BelievesALastingChange) {
  LatencyProfile profile(30, 0);
  for (int i = 0; i < 5; ++i) profile.Add({8, 3}, 50);
  for (int i = 0; i < 3; ++i) profile.Add({8, 3}, 100);
  EXPECT_NEAR(profile.Estimate({8, 3}), 100, 1e-9);
}

// Between two measured shapes the level is between theirs, and dearer for not being known.
TEST(LatencyProfile, WhatOneHasSeenAnotherEstimatesWhateverItAssumes) {
  LatencyProfile profile(30, 0.5);
  for (const uint32_t nodes : {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}) {
    profile.Add({nodes, nodes}, 20 + 3 * nodes);
  }
  LatencyProfile other(5, 0);
  for (const auto& [shape, ms] : profile.Seen()) other.Add(shape, ms);
  EXPECT_EQ(profile.Seen().size(), 15u);
  for (const uint32_t nodes : {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}) {
    EXPECT_DOUBLE_EQ(other.Estimate({nodes, nodes}), 20 + 3 * nodes) << nodes;
  }
}

TEST(LatencyProfile, IsConservativeBetweenMeasuredShapes) {
  LatencyProfile profile(10, 1);
  profile.Add({4, 2}, 14 * 2.0);   // twice the line
  profile.Add({16, 2}, 26 * 3.0);  // three times
  for (const uint32_t nodes : {6U, 8U, 12U}) {
    const double line = 10 + nodes;
    EXPECT_GT(profile.Estimate({nodes, 2}), line * 2.0) << nodes;
    EXPECT_LT(profile.Estimate({nodes, 2}), line * 3.0 * 1.2) << nodes;
  }
  // Steps 4, 6, 8, 12, 16: two from either, so halfway between them and two penalties.
  EXPECT_NEAR(profile.Estimate({8, 2}), 18 * 2.5 * 1.1, 1e-9);
  // Further out, dearer.
  EXPECT_GT(profile.Estimate({64, 2}) / (10 + 64), profile.Estimate({24, 2}) / (10 + 24));
}

TEST(RecentMedian, OfFewAndOfMany) {
  RecentMedian<9> median;
  EXPECT_TRUE(median.empty());
  median.Add(5);
  EXPECT_EQ(median.Value(), 5);
  for (const double value : {1.0, 2.0}) median.Add(value);
  EXPECT_EQ(median.Value(), 2);
  for (int i = 0; i < 9; ++i) median.Add(7);
  EXPECT_EQ(median.Value(), 7);
}

TEST(CostModel, SaysWhatIsAssumedAndThenWhatIsMeasured) {
  CostModel costs({.round_trip_ms = 50, .draft_ms = 8, .draft_node_ms = 0.2});
  EXPECT_EQ(costs.round_trip_ms(), 50);
  EXPECT_DOUBLE_EQ(costs.DraftMs(8), 8 + 7 * 0.2);
  costs.MeasuredRoundTrip(90);
  EXPECT_EQ(costs.round_trip_ms(), 90);
  for (int i = 0; i < 8; ++i) costs.MeasuredVerdict(3, 60);
  EXPECT_DOUBLE_EQ(costs.tokens_per_pass(), 3);
  EXPECT_DOUBLE_EQ(costs.tokens_per_ms(), 0.05);
}

TEST(CostModel, APassOfTheRootAloneIsAnyWithoutItsRows) {
  CostModel costs({.pass_ms = 77});
  EXPECT_DOUBLE_EQ(costs.root_pass_ms(), 77);
  costs.MeasuredPass({4, 4}, 34);
  EXPECT_DOUBLE_EQ(costs.root_pass_ms(), 34) << "nothing is known of rows";
  for (int i = 0; i < 12; ++i) costs.MeasuredPass({i % 2 == 0 ? 8u : 4u, 4}, i % 2 == 0 ? 46 : 34);
  EXPECT_NEAR(costs.root_pass_ms(), 22, 1e-9);
  costs.MeasuredPass({0, 0}, 20);
  EXPECT_DOUBLE_EQ(costs.root_pass_ms(), 20);
}

// A line through passes of many rows may meet those of none below nothing.
TEST(CostModel, APassOfTheRootAloneIsNoLessThanItsShareOfRows) {
  CostModel costs;
  for (int i = 0; i < 12; ++i) costs.MeasuredPass({i % 2 == 0 ? 15u : 7u, 4}, i % 2 == 0 ? 64 : 20);
  EXPECT_GE(costs.root_pass_ms(), 20.0 / 8);
}

}  // namespace
}  // namespace outrider
