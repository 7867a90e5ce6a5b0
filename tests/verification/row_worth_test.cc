// What a drafted node has to promise where sessions share a target.
#include "common/verification/machine/row_worth.h"

#include <chrono>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(RowWorth, ARowIsWorthTheTextThatItDelays) {
  RowWorth worth;
  EXPECT_EQ(worth.LeastChance(0.001), 0);
  for (int i = 0; i < 100; ++i)
    worth.Ran(milliseconds(50), milliseconds(40), 25);  // 500 tokens a second
  EXPECT_NEAR(worth.LeastChance(0.001), RowWorth::kMargin * 0.5, 1e-9);
  EXPECT_NEAR(worth.LeastChance(0.0001), RowWorth::kMargin * 0.05, 1e-9);
  EXPECT_EQ(worth.LeastChance(0), 0);
}

TEST(RowWorth, ANightWithoutAnybodySaysNothingOfTheMorning) {
  RowWorth worth;
  for (int i = 0; i < 100; ++i) worth.Ran(milliseconds(50), milliseconds(40), 25);
  worth.Ran(hours(10), milliseconds(40), 25);
  for (int i = 0; i < 64; ++i) worth.Ran(milliseconds(50), milliseconds(40), 25);
  EXPECT_NEAR(worth.LeastChance(0.001), RowWorth::kMargin * 0.5, 0.02);
}

TEST(DraftRecord, IsBelievedUntilItIsWrong) {
  DraftRecord record;
  EXPECT_EQ(record.truth(), 1);
  for (int i = 0; i < 100; ++i) record.Passed(2, 2);
  EXPECT_NEAR(record.truth(), 1, 0.01);
  for (int i = 0; i < 100; ++i) record.Passed(2, 1);
  EXPECT_NEAR(record.truth(), 0.55, 0.01);
  for (int i = 0; i < 100; ++i) record.Passed(1, 3);
  EXPECT_EQ(record.truth(), 1) << "what is more than was said is no reason to say more";
}

TEST(DraftRecord, OfALiarIsForgottenInTheEnd) {
  DraftRecord record;
  for (int i = 0; i < 100; ++i) record.Passed(63, 0);
  EXPECT_LT(record.truth(), 0.005);
  for (int i = 0; i < 300; ++i) record.Passed(0, 0);
  EXPECT_LT(record.truth(), 0.1) << "but not soon";
  for (int i = 0; i < 1000; ++i) record.Passed(0, 0);
  EXPECT_GT(record.truth(), 0.9);
}

}  // namespace
}  // namespace outrider
