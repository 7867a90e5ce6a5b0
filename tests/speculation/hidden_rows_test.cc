// What flash hides of rows, from how long passes wait for it.
#include "common/speculation/costs/hidden_rows.h"

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(HiddenRows, CostNothingUntilComputingTakesLongerThanReading) {
  HiddenRows hidden;
  EXPECT_EQ(hidden.RowMs(24, 32), std::nullopt);
  hidden.Add(24, 600, 600 - 24 * 12.75);  // forty rows take 600 ms, and what is waited beside them
  EXPECT_EQ(hidden.RowMs(1, 2), 0);
  EXPECT_EQ(hidden.RowMs(24, 32), 0);
  EXPECT_NEAR(hidden.RowMs(32, 40).value(), 0, 1e-9);
  EXPECT_NEAR(hidden.RowMs(32, 48).value(), 15.0 * 8 / 16, 1e-9);
  EXPECT_NEAR(hidden.RowMs(48, 64).value(), 15, 1e-9);
}

TEST(HiddenRows, AreNotToldByPassesThatHardlyWaitButForMore) {
  HiddenRows hidden;
  for (int i = 0; i < 3; ++i) hidden.Add(48, 900, 135);
  EXPECT_EQ(hidden.RowMs(32, 48), std::nullopt);
  EXPECT_NEAR(hidden.RowMs(48, 64).value(), 18.75, 1e-9);
  for (int i = 0; i < 4; ++i) hidden.Add(24, 600, 240);
  EXPECT_EQ(hidden.RowMs(24, 32), 0);
}

TEST(HiddenRows, ArePricedByPassesOfLate) {
  HiddenRows hidden;
  for (int i = 0; i < 9; ++i) hidden.Add(24, 600, 600 - 24 * 12.75);
  hidden.Add(24, 6000, 5000);  // one that stuttered
  EXPECT_NEAR(hidden.RowMs(48, 64).value(), 15, 1e-9);
  for (int i = 0; i < 9; ++i)
    hidden.Add(24, 300, 300 - 24 * 8.5);  // a disk that reads twice as fast
  EXPECT_NEAR(hidden.RowMs(32, 48).value(), 10, 1e-9);
}

}  // namespace
}  // namespace outrider
