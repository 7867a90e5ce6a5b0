#include "client/verifier/link_patience.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MonotonicTime kStart(seconds(100));

TEST(LinkPatienceTest, IsWhatMovingTakesWithinWhatUsersAndHiccupsAllow) {
  for (const auto& [move, patience] : {std::pair(milliseconds(1), LinkPatience::kLeast),
                                       std::pair(milliseconds(900), Duration(milliseconds(900))),
                                       std::pair(milliseconds(60000), LinkPatience::kMost)}) {
    LinkPatience link(move);
    EXPECT_FALSE(link.gives_up_at().has_value());
    link.Asked(kStart);
    EXPECT_EQ(link.gives_up_at(), kStart + patience);
    link.Asked(kStart + seconds(1));  // it was owed already
    EXPECT_EQ(link.gives_up_at(), kStart + patience);
    link.Settled();
    EXPECT_FALSE(link.gives_up_at().has_value());
  }
}

TEST(LinkPatienceTest, EveryWordBeginsItAnewAndSoDoesALossThatIsNoticed) {
  LinkPatience link(milliseconds(500));
  link.Asked(kStart);
  link.Heard(kStart + milliseconds(10));
  EXPECT_EQ(link.gives_up_at(), kStart + milliseconds(510));
  link.Lost(kStart + milliseconds(400));
  EXPECT_EQ(link.gives_up_at(), kStart + milliseconds(900));
}

TEST(LinkPatienceTest, AServerThatIsSlowAnywayIsWaitedForLonger) {
  LinkPatience link(milliseconds(300));
  link.Asked(kStart);
  MonotonicTime now = kStart;
  for (int i = 0; i < 9; ++i) link.Heard(now += seconds(1));
  EXPECT_EQ(link.gives_up_at(), now + LinkPatience::kGaps * seconds(1));
}

TEST(LinkPatienceTest, LooksMoreAndMoreRarelyAndForWhoFlapsFromTheBeginning) {
  LinkPatience link(milliseconds(300));
  MonotonicTime now = kStart;
  link.Left(now);
  Duration interval = LinkPatience::kLookFirst;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(link.looks_at(), now + interval);
    link.LookedInVain(now += interval);
    interval = std::min(2 * interval, LinkPatience::kLookMax);
  }
  link.Returned(now);
  link.Left(now += seconds(1));
  EXPECT_EQ(link.looks_at(), now + 2 * LinkPatience::kLookFirst);
  link.Returned(now += seconds(1));
  link.Left(now += seconds(1));
  EXPECT_EQ(link.looks_at(), now + 4 * LinkPatience::kLookFirst);
  link.Returned(now += seconds(1));
  link.Left(now += LinkPatience::kSteady + seconds(1));
  EXPECT_EQ(link.looks_at(), now + LinkPatience::kLookFirst);
}

}  // namespace
}  // namespace outrider
