#include "common/speculation/drafting/live_hints.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

// What is believed after four hints of a pass: of an early exit a sure one, then doubtful ones, and a
// late word of the first outcome.
TokenId Believed(HintBelief belief) {
  LiveHints hints(belief);
  hints.Take({.leaf = 1, .next = 10, .probability = 0.3, .exit = 0});
  hints.Take({.leaf = 1, .next = 11, .probability = 0.8, .exit = 1});
  hints.Take({.leaf = 2, .next = 12, .probability = 0.5, .exit = 2});
  hints.Take({.leaf = 1, .next = 13, .probability = 0.4, .exit = 2});
  hints.Take({.leaf = 3, .next = 14, .probability = 0.6, .exit = 1});  // overtaken by exit 2's
  return hints.first().next;
}

TEST(LiveHints, EveryOrderBelievesItsOwn) {
  EXPECT_EQ(Believed(HintBelief::kNewest), 13);
  EXPECT_EQ(Believed(HintBelief::kProbability), 11);
  EXPECT_EQ(Believed(HintBelief::kArrival), 10);
}

TEST(LiveHints, ARandomOneIsAnyOfThem) {
  LiveHints hints(HintBelief::kRandom);
  std::set<TokenId> believed;
  for (int pass = 0; pass < 200; ++pass) {
    hints.Forget();
    for (const TokenId next : {1, 2, 3}) hints.Take({.leaf = 0, .next = next, .probability = 0.5});
    believed.insert(hints.first().next);
  }
  EXPECT_THAT(believed, testing::ElementsAre(1, 2, 3));
}

TEST(LiveHints, AnOutcomeIsThereOnceInTheWordsOfItsDeepestExit) {
  LiveHints hints(HintBelief::kProbability);
  hints.Take({.leaf = 1, .next = 10, .probability = 0.9, .exit = 1});
  hints.Take({.leaf = 1, .next = 11, .probability = 0.5, .exit = 1});
  hints.Take({.leaf = 1, .next = 10, .probability = 0.2, .exit = 2});
  EXPECT_EQ(hints.first().next, 11);
  hints.Take({.leaf = 1, .next = 10, .probability = 0.9, .exit = 0});  // late
  EXPECT_EQ(hints.first().next, 11);
}

TEST(LiveHints, WhenThereAreTooManyTheLastInOrderGoes) {
  for (const HintBelief belief : {HintBelief::kProbability, HintBelief::kArrival}) {
    LiveHints hints(belief);
    hints.Take({.leaf = 0, .next = 1000, .probability = 0.99});
    for (TokenId next = 0; next < 100; ++next) {
      hints.Take({.leaf = 0, .next = next, .probability = 0.5});
    }
    EXPECT_EQ(hints.first().next, 1000);
    const double rank = hints.Take({.leaf = 0, .next = 1000, .probability = 0.98});
    EXPECT_EQ(hints.first().next, 1000);
    EXPECT_DOUBLE_EQ(rank, belief == HintBelief::kArrival ? 1 : 0.98);
  }
}

TEST(LiveHints, WhatItsVerdictHasOvertakenIsGone) {
  LiveHints hints(HintBelief::kArrival);
  hints.Take({.leaf = 0, .next = 1, .probability = 0.5});
  hints.Take({.leaf = 0, .next = 2, .probability = 0.5});
  hints.Forget();
  EXPECT_TRUE(hints.empty());
  EXPECT_DOUBLE_EQ(hints.Take({.leaf = 0, .next = 3, .probability = 0.5}),
                   1);  // the first of a pass
  EXPECT_EQ(hints.first().next, 3);
}

}  // namespace
}  // namespace outrider
