#include "bench/simulator/studies/formulas.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr RoundTimes kTimes = {.link = 30, .draft = 40, .target = 50, .hit = 2};

TEST(Formulas, AreThoseOfTable4) {
  EXPECT_DOUBLE_EQ(TargetAloneMs(200, kTimes), 2 * 30 + 200 * 50);
  EXPECT_DOUBLE_EQ(ChainMs(200, 2.5, kTimes), 80 * (60 + 40 + 50));
  EXPECT_DOUBLE_EQ(CoLocatedMs(200, 2.5, kTimes), 60 + 80 * (40 + 50));
  EXPECT_DOUBLE_EQ(FsdMs(200, 2.5, 0.25, kTimes), 80 * (60 + 0.25 * 40 + 0.75 * 2 + 50));
}

TEST(Formulas, WhatIsNeverPreDraftedIsAChain) {
  EXPECT_DOUBLE_EQ(FsdMs(200, 2.5, 1, kTimes), ChainMs(200, 2.5, kTimes));
}

// 40 ms of drafting, 10 ms a token: after half a pass 25 ms are left, and 5 ms of a wrong token.
TEST(Formulas, AHitThatIsLateCostsWhatIsLeftAndAMissTheTokenUnderWay) {
  EXPECT_DOUBLE_EQ(LateFsdMs(200, 2.5, 0.25, 0.5, 4, kTimes),
                   80 * (60 + 0.25 * (40 + 5) + 0.75 * 15 + 50));
  EXPECT_DOUBLE_EQ(LateFsdMs(200, 2.5, 0.25, 0.2, 4, kTimes), FsdMs(200, 2.5, 0.25, kTimes));
}

TEST(Formulas, ImpliedTimesGiveTheReportedSpeedups) {
  for (const FsdMeasurement& measured : FsdMeasurements()) {
    RoundTimes times = measured.times;
    times.hit = ImpliedHitMs(measured);
    EXPECT_NEAR(ChainMs(200, measured.tau, times) / FsdMs(200, measured.tau, measured.miss, times),
                measured.chain_to_fsd, 1e-9);
    RoundTimes alone = measured.times;
    alone.target = ImpliedAloneTargetMs(measured, 200);
    EXPECT_NEAR(TargetAloneMs(200, alone) / ChainMs(200, measured.tau, measured.times),
                measured.alone_to_chain, 1e-9);
  }
}

}  // namespace
}  // namespace outrider
