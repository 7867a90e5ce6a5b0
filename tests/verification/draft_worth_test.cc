// Whether the draft beside the target is worth its time, where sessions share both.
#include "common/verification/machine/draft_worth.h"

#include <chrono>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

// A job takes 5 ms and keeps two of three nodes, to begin with.
class DraftWorthTest : public ::testing::Test {
 protected:
  DraftWorthTest() { Work(1); }

  void Work(int jobs, uint32_t tokens = 3, Duration time = milliseconds(5)) {
    for (int i = 0; i < jobs; ++i) worth_.Began();
    for (int i = 0; i < jobs; ++i) worth_.Ended(tokens, time);
  }
  void Keep(uint32_t nodes, uint32_t kept, int passes = 100) {
    for (int i = 0; i < passes; ++i) {
      session_.Came();
      session_.Passed(nodes, kept);
    }
  }
  bool IsWorthIt(const DraftWorth::Prices& prices) const {
    return worth_.IsWorthIt(session_, prices);
  }

  DraftWorth worth_;
  KeptHere session_;
};

TEST_F(DraftWorthTest, WhoIsAloneIsDraftedFor) {
  EXPECT_TRUE(IsWorthIt({.run_seconds = 0.040}));
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.003})) << "a target that is faster than its draft";
}

TEST_F(DraftWorthTest, RowsThatAreDearAreNotDraftedFor) {
  EXPECT_TRUE(IsWorthIt({.run_seconds = 0.040, .row = 0.4}));
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.040, .row = 0.6}));
}

TEST_F(DraftWorthTest, WhatOthersWouldHaveOfTheCoresCounts) {
  EXPECT_TRUE(IsWorthIt({.run_seconds = 0.040, .other_second = 200}));
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.040, .other_second = 400}));
}

TEST_F(DraftWorthTest, ARunThatBeginsWithoutAChainIsATokenOfItsSession) {
  const DraftWorth::Prices prices = {.run_seconds = 0.040, .row = 0.3};
  EXPECT_TRUE(IsWorthIt(prices));
  for (int i = 0; i < 100; ++i) worth_.LetPass(1);
  EXPECT_FALSE(IsWorthIt(prices));
  for (int i = 0; i < 100; ++i) worth_.LetPass(0);
  EXPECT_TRUE(IsWorthIt(prices));
}

TEST_F(DraftWorthTest, WhatARunLetPassOnceIsTriedAgainInTheEnd) {
  const DraftWorth::Prices prices = {.run_seconds = 0.040, .row = 0.3};
  for (int i = 0; i < 100; ++i) worth_.LetPass(3);
  int left_out = 0;
  for (; left_out < 10'000 && !IsWorthIt(prices); ++left_out) worth_.LeftOut();
  EXPECT_GT(left_out, 100);
  EXPECT_LT(left_out, 4000);
}

TEST_F(DraftWorthTest, WhoIsNotWaitedForTakesNothingFromOthersButTheirCores) {
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.040, .other_second = 400}));
  for (int i = 0; i < 100; ++i) worth_.LetPass(1);
  EXPECT_TRUE(IsWorthIt({.run_seconds = 0.040, .other_second = 400}));
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.040, .other_second = 400, .takes_cores = true}));
}

TEST_F(DraftWorthTest, AChainIsAskedForOnceAndWaitsForOnePass) {
  session_.Asked(/*run_count=*/7);
  EXPECT_EQ(session_.RunsLetPass(9), std::nullopt) << "there is none yet";
  session_.Came();
  EXPECT_EQ(session_.RunsLetPass(9), 2u);
  session_.Passed(4, 2);
  EXPECT_EQ(session_.RunsLetPass(10), std::nullopt);
}

TEST_F(DraftWorthTest, AJobIsDueAfterThoseBeforeItAndLateNotAtOnce) {
  EXPECT_EQ(DraftWorth().DueOfNext(), std::nullopt);
  const Duration alone = *worth_.DueOfNext();
  EXPECT_GT(alone, milliseconds(6));
  EXPECT_LT(alone, milliseconds(9));
  for (int i = 0; i < 7; ++i) worth_.Began();
  EXPECT_GT(*worth_.DueOfNext(), milliseconds(45));
  EXPECT_LT(*worth_.DueOfNext(), milliseconds(60));
}

TEST_F(DraftWorthTest, AJobThatWouldWaitForManyIsNotAskedFor) {
  for (int i = 0; i < 20; ++i) worth_.Began();
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.040}));
  for (int i = 0; i < 20; ++i) worth_.Ended(3, milliseconds(5));
  EXPECT_TRUE(IsWorthIt({.run_seconds = 0.040}));
}

TEST_F(DraftWorthTest, HowLongPromptsTakeIsNoMatterOfTheNextJob) {
  Work(100, /*tokens=*/400, milliseconds(600));
  EXPECT_TRUE(IsWorthIt({.run_seconds = 0.040}));
  Work(100, /*tokens=*/4, milliseconds(600));
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.040}));
}

TEST_F(DraftWorthTest, ADraftThatIsWrongIsTriedAgainInTheEnd) {
  const DraftWorth::Prices prices = {.run_seconds = 0.040, .row = 0.2};
  EXPECT_TRUE(IsWorthIt(prices));
  Keep(4, 0);
  EXPECT_FALSE(IsWorthIt(prices));
  int left_out = 0;
  for (; left_out < 1000 && !IsWorthIt(prices); ++left_out) session_.LeftOut();
  EXPECT_GT(left_out, 20);
  EXPECT_LT(left_out, 400);
}

TEST_F(DraftWorthTest, APassWithoutAChainSaysNothingOfTheDraft) {
  for (int i = 0; i < 100; ++i) session_.Passed(0, 0);
  EXPECT_EQ(session_.kept(), KeptHere().kept());
}

TEST_F(DraftWorthTest, JobsThatComeTooLateKeepNothing) {
  for (int i = 0; i < 100; ++i) session_.Missed();
  EXPECT_FALSE(IsWorthIt({.run_seconds = 0.040}));
}

// The next pass is of other tokens, whose chain may not be there yet.
TEST_F(DraftWorthTest, AChainThatWasEditedAwayIsNotThatOfTheNextPass) {
  for (const bool is_left_out : {false, true}) {
    session_.Asked(3);
    session_.Came();
    EXPECT_EQ(session_.RunsLetPass(5), 2u);
    if (is_left_out) {
      session_.LeftOut();
    } else {
      session_.Asked(5);
    }
    EXPECT_EQ(session_.RunsLetPass(6), std::nullopt);
    const double kept = session_.kept();
    session_.Passed(4, 4);
    EXPECT_EQ(session_.kept(), kept);
  }
}

}  // namespace
}  // namespace outrider
