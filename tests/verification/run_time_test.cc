// What a run takes, learned from runs.
#include "common/verification/machine/run_time.h"

#include <chrono>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

TEST(RunTime, TwoSizesMakeALine) {
  RunTime time;
  EXPECT_FALSE(time.line().has_value());
  time.Learn(4, milliseconds(38));
  EXPECT_FALSE(time.line().has_value());
  time.Learn(20, milliseconds(70));
  ASSERT_TRUE(time.line().has_value());
  EXPECT_NEAR(time.line()->run_seconds, 0.030, 1e-9);
  EXPECT_NEAR(time.line()->row_seconds, 0.002, 1e-9);
}

TEST(RunTime, OneSizeTellsNothingButThatItWasTried) {
  RunTime time;
  for (int i = 0; i < 100; ++i) time.Learn(16, milliseconds(80));
  EXPECT_FALSE(time.line().has_value());
  EXPECT_EQ(time.rows_tried(), 16);
}

TEST(RunTime, FollowsATargetThatBecomesSlower) {
  RunTime time;
  for (uint32_t i = 0; i < 200; ++i) time.Learn(1 + i % 32, milliseconds(20 + 1 + i % 32));
  for (uint32_t i = 0; i < 200; ++i) time.Learn(1 + i % 32, milliseconds(40 + 2 * (1 + i % 32)));
  EXPECT_NEAR(time.line()->run_seconds, 0.040, 1e-4);
  EXPECT_NEAR(time.line()->row_seconds, 0.002, 1e-5);
}

TEST(RunTime, NoiseMakesNoRowCheaperThanNothing) {
  RunTime time;
  for (uint32_t i = 0; i < 50; ++i) time.Learn(1 + i % 8, milliseconds(50 - i % 8));
  EXPECT_GT(time.line()->row_seconds, 0);
  EXPECT_GT(time.line()->run_seconds, 0);
}

}  // namespace
}  // namespace outrider
