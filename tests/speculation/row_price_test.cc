#include "common/speculation/costs/row_price.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(RowPrice, IsUnknownUntilPassesDiffer) {
  RowPrice price;
  EXPECT_EQ(price.ms(), std::nullopt);
  for (int i = 0; i < 40; ++i) price.Add(17, 46);
  EXPECT_EQ(price.ms(), std::nullopt);
  price.Add(9, 34);  // one alone may have stuttered
  EXPECT_EQ(price.ms(), std::nullopt);
  price.Add(9, 34);
  for (int i = 0; i < 7; ++i) price.Add(17, 46);
  ASSERT_TRUE(price.ms().has_value());
  EXPECT_DOUBLE_EQ(*price.ms(), 1.5);
}

// The read of the weights is no part of it.
TEST(RowPrice, IsOfOneRowMore) {
  RowPrice price;
  for (uint32_t rows = 1; rows <= 16; ++rows) price.Add(rows, 24 + 0.125 * rows);
  EXPECT_NEAR(*price.ms(), 0.125, 1e-9);
}

TEST(RowPrice, APassInFiveThatStuttersMovesItLittle) {
  RowPrice price;
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t rows = 2 + i * 7 % 15;
    price.Add(rows, 24 + 1.5 * rows + (i % 5 == 0 ? 200 : 0));
  }
  EXPECT_NEAR(*price.ms(), 1.5, 0.3);
}

TEST(RowPrice, FollowsATargetThatChanges) {
  RowPrice price;
  for (uint32_t i = 0; i < 64; ++i) price.Add(2 + i % 8, 24 + 1.5 * (2 + i % 8));
  for (uint32_t i = 0; i < 32; ++i) price.Add(2 + i % 8, 60 + 4.0 * (2 + i % 8));
  EXPECT_NEAR(*price.ms(), 4, 1e-9);
}

// The price of before holds while few passes of now are known, and not a price between two targets.
TEST(RowPrice, IsNotThatOfAllPassesTakingLonger) {
  RowPrice price;
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t rows = i < 48 ? 4 + i % 4 : 9 + i % 4;
    price.Add(rows, (i < 48 ? 24 : 72) + 0.5 * rows);
    if (i > 8) {
      EXPECT_NEAR(price.ms().value_or(-1), 0.5, 1e-9) << i;
    }
  }
}

// Tiles of 16 rows: within one a row costs 1, and the seventeenth 8 more.
TEST(RowPrice, OfAStepIsThatBetweenPassesOnEitherSideOfIt) {
  const auto pass_ms = [](uint32_t rows) { return 24.0 + rows + (rows > 16 ? 8 : 0); };
  RowPrice price;
  EXPECT_EQ(price.MsOfStep(24), std::nullopt);
  price.Add(24, pass_ms(24));
  for (int i = 0; i < 8; ++i) price.Add(16, pass_ms(16));
  EXPECT_EQ(price.MsOfStep(24), std::nullopt);  // that one may have stuttered
  price.Add(24, pass_ms(24));
  price.Add(12, pass_ms(12));
  price.Add(16, pass_ms(16));
  price.Add(12, pass_ms(12));
  price.Add(16, pass_ms(16));
  EXPECT_DOUBLE_EQ(price.MsOfStep(24).value(), 2);
  EXPECT_DOUBLE_EQ(price.MsOfStep(17).value(), 2);
  EXPECT_DOUBLE_EQ(price.MsOfStep(16).value(), 1);
  EXPECT_EQ(price.MsOfStep(12), std::nullopt);
  EXPECT_EQ(price.MsOfStep(100), std::nullopt);
}

TEST(RowPrice, OfAStepIsRememberedForAWhile) {
  RowPrice price;
  for (uint32_t i = 0; i < 8; ++i) price.Add(i % 2 == 0 ? 16 : 24, i % 2 == 0 ? 40 : 56);
  for (uint32_t i = 0; i < 200; ++i) price.Add(i % 2 == 0 ? 12 : 16, 40);
  EXPECT_DOUBLE_EQ(price.MsOfStep(24).value(), 2);
  for (uint32_t i = 0; i < 100; ++i) price.Add(i % 2 == 0 ? 12 : 16, 40);
  EXPECT_EQ(price.MsOfStep(24), std::nullopt);
}

TEST(RowPrice, IsNotBelowNothing) {
  RowPrice price;
  for (uint32_t rows = 1; rows <= 16; ++rows) price.Add(rows, 24 - 0.1 * rows);
  EXPECT_EQ(*price.ms(), 0);
}

}  // namespace
}  // namespace outrider
