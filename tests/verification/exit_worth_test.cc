#include "common/verification/machine/exit_worth.h"

#include <chrono>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Outcome kSaid = {3, 7};
constexpr Outcome kOther = {3, 8};
constexpr MonotonicTime kEnd{std::chrono::seconds(5)};

// A pass of 20 ms, of which each exit took so much.
void Pass(ExitWorth& worth, const std::vector<HeardGuess>& guesses, Duration exit_time) {
  const std::vector<Duration> times(worth.exit_count(), exit_time);
  worth.Spent(times, 1);
  worth.Judge(guesses, kSaid, kEnd);
}

HeardGuess Guess(uint32_t exit, const Outcome& outcome, bool was_grown = false) {
  return {exit, outcome, kEnd - milliseconds(10 - 4 * exit), was_grown};
}

TEST(ExitWorth, TheFirstToBeRightEarnsItsLead) {
  ExitWorth worth(2);
  Pass(worth, {Guess(0, kOther), Guess(1, kSaid)}, microseconds(50));
  Pass(worth, {Guess(0, kSaid), Guess(1, kSaid)}, microseconds(50));
  EXPECT_EQ(worth.counts(0).guesses, 2u);
  EXPECT_EQ(worth.counts(0).right, 1u);
  EXPECT_EQ(worth.counts(0).first_right, 1u);
  EXPECT_EQ(worth.counts(0).lead, milliseconds(10));
  EXPECT_EQ(worth.counts(1).right, 2u);
  EXPECT_EQ(worth.counts(1).first_right, 1u);
  EXPECT_EQ(worth.counts(1).lead, milliseconds(6));
  EXPECT_EQ(worth.counts(1).time, microseconds(100));
}

TEST(ExitWorth, OneThatSaysNothingNewIsSwitchedOff) {
  ExitWorth worth(2);
  for (uint32_t i = 0; i < ExitWorth::kTrial; ++i) {
    EXPECT_TRUE(worth.on(1));
    Pass(worth, {Guess(0, kSaid), Guess(1, kSaid)}, microseconds(50));
  }
  EXPECT_TRUE(worth.on(0));
  EXPECT_FALSE(worth.on(1));
}

TEST(ExitWorth, WhatWasGrownAlreadyEarnsNothing) {
  ExitWorth worth(1);
  for (uint32_t i = 0; i < ExitWorth::kTrial; ++i) {
    Pass(worth, {Guess(0, kSaid, /*was_grown=*/true)}, microseconds(50));
  }
  EXPECT_EQ(worth.counts(0).news, 0u);
  EXPECT_FALSE(worth.on(0));
}

TEST(ExitWorth, ItIsTriedAgainAndRestsLongerWhenThatIsInVain) {
  ExitWorth worth(1);
  const auto passes = [&](uint32_t count, const Outcome& guess) {
    for (uint32_t i = 0; i < count; ++i) Pass(worth, {Guess(0, guess)}, microseconds(50));
  };
  passes(ExitWorth::kTrial, kOther);
  EXPECT_FALSE(worth.on(0));
  passes(ExitWorth::kRest, kOther);
  EXPECT_TRUE(worth.on(0));
  passes(ExitWorth::kTrial, kOther);
  EXPECT_FALSE(worth.on(0));
  passes(2 * ExitWorth::kRest - 1, kOther);
  EXPECT_FALSE(worth.on(0));
  passes(1 + ExitWorth::kTrial, kSaid);
  EXPECT_TRUE(worth.on(0));
}

TEST(ExitWorth, EverySessionOfARunWaitsForIt) {
  ExitWorth worth(1);
  for (uint32_t i = 0; i < ExitWorth::kTrial; ++i) {
    const Duration time = milliseconds(1);
    worth.Spent({&time, 1}, 16);  // one of them is ahead by 10 ms, all by 1 behind
    worth.Judge(std::vector{Guess(0, kSaid)}, kSaid, kEnd);
  }
  EXPECT_FALSE(worth.on(0));
}

}  // namespace
}  // namespace outrider
