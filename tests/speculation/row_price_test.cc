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

TEST(RowPrice, IsNotBelowNothing) {
  RowPrice price;
  for (uint32_t rows = 1; rows <= 16; ++rows) price.Add(rows, 24 - 0.1 * rows);
  EXPECT_EQ(*price.ms(), 0);
}

}  // namespace
}  // namespace outrider
