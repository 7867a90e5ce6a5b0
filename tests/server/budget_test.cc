// What somebody uses up, and what comes back.
#include "server/budget.h"

#include <chrono>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr MonotonicTime kBegin{std::chrono::hours(1)};

TEST(Budget, WhatIsUsedComesBackWithTime) {
  Budget budget;
  budget.Use(100, /*per_second=*/10, kBegin);
  EXPECT_DOUBLE_EQ(budget.used(10, kBegin), 100);
  EXPECT_DOUBLE_EQ(budget.used(10, kBegin + std::chrono::seconds(4)), 60);
  budget.Use(5, 10, kBegin + std::chrono::seconds(4));
  EXPECT_DOUBLE_EQ(budget.used(10, kBegin + std::chrono::seconds(5)), 55);
  EXPECT_DOUBLE_EQ(budget.used(10, kBegin + std::chrono::hours(1)), 0);
}

TEST(Budget, NothingIsSavedUp) {
  Budget budget;
  budget.Use(-1000, 10, kBegin);
  budget.Use(3, 10, kBegin + std::chrono::hours(1));
  EXPECT_DOUBLE_EQ(budget.used(10, kBegin + std::chrono::hours(1)), 3);
  budget.Use(-2, 10, kBegin + std::chrono::hours(1));
  EXPECT_DOUBLE_EQ(budget.used(10, kBegin + std::chrono::hours(1)), 1);
}

}  // namespace
}  // namespace outrider
