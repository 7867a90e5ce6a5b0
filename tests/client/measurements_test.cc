// What the summary of a run says of passes is of those whose time was told.
#include "client/session/measurements.h"

#include <algorithm>
#include <chrono>

#include "common/speculation/costs/cost_model.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Measurements, PassesWhoseTimeWasNotToldAreNoPassesOfNoTime) {
  CostModel costs;
  Measurements times(costs);
  MonotonicTime now(std::chrono::hours(1));
  for (int i = 0; i < 10; ++i) {
    v1::Verdict verdict;
    verdict.set_nodes(3);
    if (i % 2 == 0) verdict.set_pass_us(25000);
    now += std::chrono::milliseconds(26);
    times.Decided(verdict, 2, now);
  }
  EXPECT_EQ(times.totals().timed_passes, 5u);
  EXPECT_DOUBLE_EQ(times.totals().pass_ms, 5 * 25.0);
  EXPECT_NEAR(costs.PassMs({3, 3}), 25, 1);
}

TEST(Measurements, WhatATargetTakesIsAsItsServerSaidLast) {
  CostModel costs;
  Measurements times(costs);
  MonotonicTime now(std::chrono::hours(1));
  v1::Verdict verdict;
  for (const uint32_t hundredths : {40u, 0u, 4000u}) {  // no server says the last
    verdict.set_least_chance(hundredths);
    times.Decided(verdict, 1, now += std::chrono::milliseconds(26));
    EXPECT_DOUBLE_EQ(costs.least_chance(), std::min(hundredths, 100u) / 100.0);
  }
}

}  // namespace
}  // namespace outrider
