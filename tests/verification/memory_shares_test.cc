// Accounts that have more of the target's memory than others, and those who wait for some.
#include "common/verification/machine/account_shares.h"
#include "common/verification/machine/memory_lender.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/lending.h"

namespace outrider {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Lending::Idle kAtWork = MemoryLender::kAtWork;

// For a while it has had no use for it, and its time has not come.
constexpr Lending::Idle kInPatience = {.since = MonotonicTime(seconds(9)),
                                       .from = MonotonicTime(seconds(14))};

TEST(MemoryShares, AnAccountThatHasMoreGivesWayToOneThatHasLess) {
  Lending lending(9);
  for (uint64_t session = 1; session <= 5; ++session) {
    ASSERT_TRUE(lending.Borrow(session, 2, std::nullopt, /*account=*/1));
    lending.idle[session] = kAtWork;
  }
  EXPECT_FALSE(lending.Borrow(6, 2, std::nullopt, /*account=*/1)) << "not to itself";
  EXPECT_TRUE(lending.Borrow(6, 2, std::nullopt, /*account=*/2));
  EXPECT_THAT(lending.evicted, ElementsAre(5)) << "the newest, which has done the least";
  EXPECT_TRUE(lending.Borrow(7, 2, std::nullopt, /*account=*/2)) << "it keeps three";
  EXPECT_FALSE(lending.Borrow(8, 2, std::nullopt, /*account=*/2)) << "three would be more than two";
  EXPECT_THAT(lending.evicted, ElementsAre(5, 4));
}

TEST(MemoryShares, WhatItDoesNotUseItGivesFirst) {
  Lending lending(9);
  for (uint64_t session = 1; session <= 5; ++session) {
    ASSERT_TRUE(lending.Borrow(session, 2, std::nullopt, /*account=*/1));
    lending.idle[session] = session == 2 ? kInPatience : kAtWork;
  }
  EXPECT_TRUE(lending.Borrow(6, 2, std::nullopt, /*account=*/2));
  EXPECT_THAT(lending.evicted, ElementsAre(2));
}

TEST(MemoryShares, WhoIsInTheRunGivesNothing) {
  Lending lending(9);
  for (uint64_t session = 1; session <= 5; ++session) {
    ASSERT_TRUE(lending.Borrow(session, 2, std::nullopt, /*account=*/1));
  }
  EXPECT_FALSE(lending.Borrow(6, 2, std::nullopt, /*account=*/2));
  lending.idle[3] = kAtWork;
  EXPECT_TRUE(lending.Borrow(6, 2, std::nullopt, /*account=*/2));
  EXPECT_THAT(lending.evicted, ElementsAre(3));
}

TEST(MemoryShares, WhoHasOneSessionKeepsIt) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10, std::nullopt, /*account=*/1));
  lending.idle[1] = kAtWork;
  EXPECT_FALSE(lending.Borrow(2, 1, std::nullopt, /*account=*/2));
  lending.idle[1] = kInPatience;
  EXPECT_FALSE(lending.Borrow(2, 1, std::nullopt, /*account=*/2));
}

TEST(MemoryShares, WhoHasBeenAskedForNothingIsAtWorkAsBefore) {
  Lending lending(9);
  ASSERT_TRUE(lending.Borrow(1, 2, std::nullopt, /*account=*/1));
  ASSERT_TRUE(lending.Borrow(2, 3, std::nullopt, /*account=*/1));
  ASSERT_TRUE(lending.Borrow(3, 3, std::nullopt, /*account=*/1));
  lending.idle = {{1, kAtWork}, {2, kAtWork}};
  EXPECT_FALSE(lending.Borrow(4, 6, std::nullopt, /*account=*/2)) << "and nobody is evicted";
  EXPECT_THAT(lending.evicted, IsEmpty());
  EXPECT_EQ(lending.lender.IdleOf(1), kAtWork);
  EXPECT_EQ(lending.lender.IdleOf(2), kAtWork);
  EXPECT_FALSE(lending.Borrow(4, 3, std::nullopt, /*account=*/1)) << "and nobody gives way now";
}

// As many sequences run out where texts are short.
TEST(MemoryShares, AShareIsOfWhateverRunsOutFirst) {
  Lending lending(3);
  for (uint64_t session = 1; session <= 3; ++session) {
    ASSERT_TRUE(lending.Borrow(session, 1, std::nullopt, /*account=*/1));
    lending.idle[session] = kAtWork;
  }
  EXPECT_TRUE(lending.Borrow(4, 1, std::nullopt, /*account=*/2));
  EXPECT_THAT(lending.evicted, ElementsAre(3));
  EXPECT_FALSE(lending.Borrow(5, 1, std::nullopt, /*account=*/2));
}

TEST(MemoryShares, WhoHasLessIsServedFirst) {
  Lending lending(9);
  ASSERT_TRUE(lending.Borrow(1, 3, std::nullopt, /*account=*/1));
  ASSERT_TRUE(lending.Borrow(2, 2, std::nullopt, /*account=*/2));
  ASSERT_TRUE(lending.Borrow(3, 5, std::nullopt, /*account=*/3));
  lending.lender.Queue(4, 1);
  lending.lender.Queue(5, 1);
  lending.lender.Queue(6, 2);
  EXPECT_EQ(lending.lender.first_waiting(), 6u);
  lending.lender.Return(3);
  EXPECT_FALSE(lending.Borrow(4, 1, std::nullopt, /*account=*/1));
  EXPECT_FALSE(lending.Borrow(7, 1, std::nullopt, /*account=*/2)) << "new, and of as much";
  EXPECT_TRUE(lending.Borrow(7, 1, std::nullopt, /*account=*/4)) << "new, and has nothing";
  EXPECT_TRUE(lending.Borrow(6, 1, std::nullopt, /*account=*/2));
  EXPECT_EQ(lending.lender.first_waiting(), 4u) << "of as much whoever came first";
  lending.lender.LeaveQueue(4);
  EXPECT_EQ(lending.lender.first_waiting(), 5u);
}

TEST(MemoryShares, OneWaitsWhereOthersHaveMoreThanItsAccountWouldHave) {
  Lending lending(9);
  const auto may_wait = [&](uint32_t pages, uint64_t account) {
    return lending.lender.MayWait(
        {.length = pages * kPageTokens, .node_count = 0, .account = account});
  };
  EXPECT_FALSE(may_wait(1, 2)) << "there is nobody to wait for";
  ASSERT_TRUE(lending.Borrow(1, 6, std::nullopt, /*account=*/1));
  ASSERT_TRUE(lending.Borrow(2, 4, std::nullopt, /*account=*/2));
  EXPECT_TRUE(may_wait(1, 2));
  EXPECT_FALSE(may_wait(2, 2));
  EXPECT_TRUE(may_wait(5, 3));
  EXPECT_FALSE(may_wait(1, 1));
}

}  // namespace
}  // namespace outrider
