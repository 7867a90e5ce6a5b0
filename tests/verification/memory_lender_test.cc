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
  bool Borrow(uint64_t session, uint32_t pages) {
    const bool lent = lender.Borrow(session, pages, Idle(), evicted);
    lender.CheckInvariants();
    return lent;
  }
  void ServeQueue() {
    lender.ServeQueue(Idle(), evicted);
    lender.CheckInvariants();
  }

  MemoryLender lender{{.page_count = 10, .page_tokens = 16, .sequence_count = 3}};
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

TEST(MemoryLender, WhoWaitsIsServedInOrderAndBeforeWhoIsNew) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10));
  lending.lender.Queue(2, 8);
  lending.lender.Queue(3, 1);
  lending.lender.Queue(2, 8);  // once is enough
  lending.lender.Return(1);
  EXPECT_FALSE(lending.Borrow(4, 1));
  lending.ServeQueue();
  EXPECT_TRUE(lending.lender.HasLent(2));
  EXPECT_TRUE(lending.lender.HasLent(3));
  EXPECT_TRUE(lending.Borrow(4, 1));
}

TEST(MemoryLender, WhoHasLeftTheQueueIsNotServed) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10));
  lending.lender.Queue(2, 8);
  lending.lender.LeaveQueue(2);
  lending.lender.Return(1);
  lending.ServeQueue();
  EXPECT_FALSE(lending.lender.HasLent(2));
}

}  // namespace
}  // namespace outrider
