#include "common/base/check.h"

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Check, WhatHoldsIsEvaluatedOnceAndSilent) {
  int evaluated = 0;
  OUTRIDER_CHECK(++evaluated == 1, "evaluated once");
  OUTRIDER_CHECK_OK(absl::OkStatus());
  EXPECT_EQ(evaluated, 1);
}

TEST(Check, IsAnExpressionThatSwallowsNoElse) {
  bool reached = false;
  if (reached)
    OUTRIDER_CHECK(false, "never evaluated");
  else
    reached = true;
  EXPECT_TRUE(reached);
}

TEST(CheckDeathTest, SaysThePlaceTheConditionAndTheReason) {
  const int rows = 3;
  EXPECT_DEATH(OUTRIDER_CHECK(rows < 2, "the batch holds two rows"),
               "check_test\\.cc:[0-9]+: a bug in Outrider: rows < 2 does not hold: the batch holds "
               "two rows");
}

TEST(CheckDeathTest, AnUnexpectedErrorSaysItsCodeAndMessage) {
  EXPECT_DEATH(OUTRIDER_CHECK_OK(NotFound("no such layer: ", 7)),
               "check_test\\.cc:[0-9]+: a bug in Outrider: unexpected error: NOT_FOUND: no such "
               "layer: 7");
}

}  // namespace
}  // namespace outrider
