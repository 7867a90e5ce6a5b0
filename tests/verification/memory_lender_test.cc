// Who has the target's memory, who loses it and who waits for some.
#include "common/verification/machine/memory_lender.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Sessions that are idle since then; who is not here is at work.
class Lending {
 public:
  using Prefix = MemoryLender::Prefix;

  bool Borrow(uint64_t session, uint32_t pages, std::optional<Prefix> prefix = std::nullopt) {
    const MemoryLender::Need need = {.length = pages * kPageTokens, .node_count = 0};
    const bool lent = lender.Borrow(session, need, prefix, Idle(), evicted);
    lender.CheckInvariants();
    return lent;
  }
  bool Own(uint64_t session, uint32_t first) {
    const bool owns = lender.Own(session, first, Idle(), evicted);
    lender.CheckInvariants();
    return owns;
  }
  uint32_t free_count() const { return lender.ledger().free_count(0); }

  MemoryLender lender{{.groups = {{.page_count = 10}}, .sequence_count = 3, .row_count_max = 1}};
  std::map<uint64_t, MonotonicTime> idle;
  std::vector<uint64_t> evicted;

 private:
  std::function<std::optional<MonotonicTime>(uint64_t)> Idle() {
    return [this](uint64_t session) -> std::optional<MonotonicTime> {
      const auto found = idle.find(session);
      if (found == idle.end()) return std::nullopt;
      return found->second;
    };
  }
};

TEST(MemoryLender, LendsWhatThereIsAndNoMore) {
  Lending lending;
  EXPECT_TRUE(lending.Borrow(1, 6));
  EXPECT_FALSE(lending.Borrow(2, 5));
  EXPECT_TRUE(lending.Borrow(2, 4));
  EXPECT_FALSE(lending.Borrow(3, 1));
  lending.lender.Return(1);
  EXPECT_TRUE(lending.Borrow(3, 6));
}

TEST(MemoryLender, SequencesAreRationedToo) {
  Lending lending;
  for (uint64_t session = 1; session <= 4; ++session) {
    EXPECT_EQ(lending.Borrow(session, 1), session <= 3);
  }
}

TEST(MemoryLender, WhoHasBeenIdleForTheLongestTimeLosesItFirst) {
  Lending lending;
  for (uint64_t session = 1; session <= 3; ++session) ASSERT_TRUE(lending.Borrow(session, 3));
  lending.idle = {{1, MonotonicTime(seconds(5))}, {3, MonotonicTime(seconds(4))}};
  EXPECT_TRUE(lending.Borrow(4, 3));
  EXPECT_THAT(lending.evicted, ElementsAre(3));
  EXPECT_EQ(lending.lender.eviction_count(), 1u);
}

TEST(MemoryLender, NobodyIsEvictedForNothing) {
  Lending lending;
  for (uint64_t session = 1; session <= 2; ++session) ASSERT_TRUE(lending.Borrow(session, 5));
  lending.idle = {{1, MonotonicTime(seconds(5))}};
  EXPECT_FALSE(lending.Borrow(3, 6));
  EXPECT_THAT(lending.evicted, IsEmpty());
}

// The first who waits is served before anybody else is.
TEST(MemoryLender, WhoWaitsIsServedInOrderAndBeforeWhoIsNew) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10));
  lending.lender.Queue(2);
  lending.lender.Queue(3);
  lending.lender.Queue(2);  // once is enough
  lending.lender.Return(1);
  EXPECT_FALSE(lending.Borrow(4, 1));
  EXPECT_FALSE(lending.Borrow(3, 1));
  EXPECT_EQ(lending.lender.first_waiting(), 2u);
  EXPECT_TRUE(lending.Borrow(2, 8));
  EXPECT_EQ(lending.lender.first_waiting(), 3u);
  EXPECT_TRUE(lending.Borrow(3, 1));
  EXPECT_EQ(lending.lender.first_waiting(), std::nullopt);
  EXPECT_TRUE(lending.Borrow(4, 1));
}

TEST(MemoryLender, WhoHasLeftTheQueueIsNotServed) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10));
  lending.lender.Queue(2);
  lending.lender.LeaveQueue(2);
  EXPECT_EQ(lending.lender.first_waiting(), std::nullopt);
}

// --- pages held together ---

TEST(MemoryLender, ABeginningIsHeldTogetherAndCountedOnce) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 6));
  EXPECT_FALSE(lending.Borrow(2, 8));
  EXPECT_EQ(lending.free_count(), 4u) << "a refusal leaves nothing behind";
  ASSERT_TRUE(lending.Borrow(2, 8, Lending::Prefix{1, 4}));
  EXPECT_EQ(lending.free_count(), 0u);
  lending.lender.Return(1);
  EXPECT_EQ(lending.free_count(), 2u) << "the beginning is the other one's still";
  lending.lender.Return(2);
  EXPECT_EQ(lending.free_count(), 10u);
}

TEST(MemoryLender, WhoWritesABeginningAnewTakesPagesOfItsOwn) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 4));
  ASSERT_TRUE(lending.Borrow(2, 4, Lending::Prefix{1, 3}));
  EXPECT_EQ(lending.free_count(), 5u);
  EXPECT_TRUE(lending.Own(1, 3)) << "shares none from there on";
  EXPECT_EQ(lending.free_count(), 5u);
  EXPECT_TRUE(lending.Own(1, 1));
  EXPECT_EQ(lending.free_count(), 3u);
  ASSERT_TRUE(lending.Borrow(3, 3));
  EXPECT_FALSE(lending.Own(2, 0)) << "one page, and none is left";
  lending.lender.Return(3);
  EXPECT_TRUE(lending.Own(2, 0));
  EXPECT_EQ(lending.free_count(), 2u);
}

TEST(MemoryLender, WhatIsHeldWithSomebodyAtWorkCannotBeHadByEviction) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 6));
  ASSERT_TRUE(lending.Borrow(2, 6, Lending::Prefix{1, 4}));
  lending.idle = {{1, MonotonicTime(seconds(5))}};
  EXPECT_FALSE(lending.Borrow(3, 5));
  EXPECT_THAT(lending.evicted, IsEmpty());
  EXPECT_TRUE(lending.Borrow(3, 4));  // its own two, and two that were free
  EXPECT_THAT(lending.evicted, ElementsAre(1));
}

TEST(MemoryLender, AnEvictedOnesBeginningStaysWithWhoSharesIt) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 8));
  lending.idle = {{1, MonotonicTime(seconds(5))}};
  EXPECT_TRUE(lending.Borrow(2, 10, Lending::Prefix{1, 5}));
  EXPECT_THAT(lending.evicted, ElementsAre(1));
  EXPECT_EQ(lending.free_count(), 0u);
}

// A window keeps little of a text, a state one page: both bound who is let in, as the cells do.
TEST(MemoryLender, NoGroupIsOverdrawn) {
  const PageGroup cells = {.page_count = 100}, window = {.page_count = 9, .window = 33},
                  state = {.page_count = 2, .pages_each = 1};
  const auto lent = [](std::vector<PageGroup> groups) {
    MemoryLender lender({.groups = groups, .sequence_count = 9, .row_count_max = 64});
    std::vector<uint64_t> evicted;
    const auto never = [](uint64_t) { return std::optional<MonotonicTime>(); };
    uint64_t count = 0;
    while (lender.Borrow(count + 1, {320, 32}, std::nullopt, never, evicted)) ++count;
    return count;
  };
  EXPECT_EQ(lent({cells}), 9u);
  EXPECT_EQ(lent({cells, window}), 1u) << "4 pages of cells and one of nodes each";
  EXPECT_EQ(lent({cells, state}), 2u);
  const auto length_max = [](std::vector<PageGroup> groups) {
    return MemoryLender({.groups = groups, .sequence_count = 9, .row_count_max = 64}).LengthMax(32);
  };
  EXPECT_EQ(length_max({cells}), 99u * kPageTokens);
  EXPECT_EQ(length_max({window, state}), UINT32_MAX);
  EXPECT_EQ(length_max({cells, {.page_count = 4, .window = 33}}), 3u * kPageTokens);
}

}  // namespace
}  // namespace outrider
