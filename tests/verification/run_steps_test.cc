// What runs take by their rows, where no line does.
#include "common/verification/machine/run_steps.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr RunTime::Line kLine = {0.010, 0.001};

TEST(RunSteps, KnowsNothingAtFirst) {
  EXPECT_FALSE(RunSteps().SecondsOf(3, kLine).has_value());
}

TEST(RunSteps, KnowsWhereAStepIs) {
  RunSteps steps;
  for (const uint32_t rows : {13, 16, 17}) steps.Learn(rows, rows <= 16 ? 0.068 : 0.080);
  EXPECT_EQ(*steps.SecondsOf(16, kLine), 0.068);
  EXPECT_EQ(*steps.SecondsOf(17, kLine), 0.080);
}

TEST(RunSteps, BetweenTwoIsALine) {
  RunSteps steps;
  steps.Learn(16, 0.068);
  steps.Learn(24, 0.100);
  EXPECT_NEAR(*steps.SecondsOf(20, kLine), 0.084, 1e-12);
}

TEST(RunSteps, BeyondThemARowCostsWhatItCostsElsewhere) {
  RunSteps steps;
  steps.Learn(16, 0.068);
  EXPECT_NEAR(*steps.SecondsOf(20, kLine), 0.072, 1e-12);
  EXPECT_NEAR(*steps.SecondsOf(10, kLine), 0.062, 1e-12);
  EXPECT_NEAR(*steps.SecondsOf(RunSteps::kRowsMax + 36, kLine), 0.152, 1e-12);
}

TEST(RunSteps, WhatStutteredOnceIsNotHeldAgainstIt) {
  RunSteps steps;
  for (const double seconds : {0.1, 0.9, 0.1}) steps.Learn(8, seconds);
  EXPECT_EQ(*steps.SecondsOf(8, kLine), 0.1);
}

TEST(RunSteps, WhatWasLongAgoIsForgotten) {
  RunSteps steps;
  steps.Learn(17, 0.9);
  for (int i = 0; i < 250; ++i) steps.Learn(16, 0.068);
  EXPECT_EQ(*steps.SecondsOf(17, kLine), 0.9);
  for (int i = 0; i < 10; ++i) steps.Learn(16, 0.068);
  EXPECT_NEAR(*steps.SecondsOf(17, kLine), 0.069, 1e-12) << "and so it is tried again";
  steps.Learn(17, 0.070);
  EXPECT_EQ(*steps.SecondsOf(17, kLine), 0.070) << "nothing of it is left";
}

TEST(RunSteps, OfRunsThatAreLargerOnlyTheirNumberCounts) {
  RunSteps steps;
  steps.Learn(RunSteps::kRowsMax + 1, 1);
  EXPECT_FALSE(steps.SecondsOf(RunSteps::kRowsMax, kLine).has_value());
}

}  // namespace
}  // namespace outrider
