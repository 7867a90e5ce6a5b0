// What a drafted node has to promise where sessions share a target.
#include "common/verification/machine/row_worth.h"

#include <chrono>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// A run of 40 ms, and a millisecond a row.
constexpr RunTime::Line kRun = {0.040, 0.001};

TEST(RowWorth, ASecondIsWorthTheTextThatItDelays) {
  RowWorth worth;
  // 500 tokens a second.
  for (int i = 0; i < 100; ++i) worth.Ran(milliseconds(50), milliseconds(40), 25);
  EXPECT_NEAR(worth.SecondPrice(kRun, 1), 500, 1e-6);
  EXPECT_NEAR(worth.SecondPrice({0.040, 0.0001}, 1), 500, 1e-6);
}

TEST(RowWorth, WhilePromptsAreReadASecondIsWorthTheTextThatIsToCome) {
  RowWorth worth;
  EXPECT_NEAR(worth.SecondPrice(kRun, 10), 200, 1e-6);  // 10 tokens in 50 ms
  for (int i = 0; i < 100; ++i) worth.Ran(milliseconds(50), milliseconds(40), 1);
  EXPECT_NEAR(worth.SecondPrice(kRun, 10), 200, 1e-6);
  EXPECT_NEAR(worth.SecondPrice(kRun, 40), 500, 1e-6);
}

TEST(RowWorth, ANightWithoutAnybodySaysNothingOfTheMorning) {
  RowWorth worth;
  for (int i = 0; i < 100; ++i) worth.Ran(milliseconds(50), milliseconds(40), 25);
  worth.Ran(hours(10), milliseconds(40), 25);
  for (int i = 0; i < 64; ++i) worth.Ran(milliseconds(50), milliseconds(40), 25);
  EXPECT_NEAR(worth.SecondPrice(kRun, 1), 500, 20);
}

// A run that waits for flash takes longer than any pause that is believed.
TEST(RowWorth, ALongRunIsNoPause) {
  RowWorth worth;
  for (int i = 0; i < 100; ++i) worth.Ran(milliseconds(4000), milliseconds(3900), 2);
  EXPECT_NEAR(worth.SecondPrice({3.8, 0.001}, 1), 0.5, 1e-9);
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
