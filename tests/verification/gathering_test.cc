#include "common/verification/machine/gathering.h"

#include <chrono>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

Duration Gathered(uint32_t ready, Duration run, const std::vector<int>& due_ms) {
  size_t next = 0;
  return GatherFor(ready, run, [&]() -> std::optional<Duration> {
    if (next == due_ms.size()) return std::nullopt;
    return milliseconds(due_ms[next++]);
  });
}

TEST(Gathering, NobodyIsWaitedForWhenNobodyIsDue) {
  EXPECT_EQ(Gathered(3, milliseconds(20), {}), Duration::zero());
  EXPECT_EQ(Gathered(0, milliseconds(20), {1, 2}), Duration::zero());
  EXPECT_EQ(Gathered(2, milliseconds(0), {}), Duration::zero()) << "a target that takes no time";
}

TEST(Gathering, WhoIsNearlyReadyIsWaitedFor) {
  EXPECT_EQ(Gathered(2, milliseconds(20), {2, 3}), milliseconds(3));
  // He would wait 18 ms, and each of a few only 2; of many, 2 ms each are more.
  EXPECT_EQ(Gathered(8, milliseconds(20), {2}), milliseconds(2));
  EXPECT_EQ(Gathered(10, milliseconds(20), {2}), Duration::zero());
}

TEST(Gathering, WhoIsLaterMayMakeUpForWhoIsSooner) {
  // 12 who wait 2 ms for one of 18 are too many; not for five of them.
  EXPECT_EQ(Gathered(12, milliseconds(20), {2, 2, 2, 2, 2}), milliseconds(2));
}

TEST(Gathering, NobodyIsWaitedForLongerThanAShareOfARun) {
  EXPECT_EQ(Gathered(1, milliseconds(20), {8}), milliseconds(8));
  EXPECT_EQ(Gathered(1, milliseconds(20), {9, 9, 9}), Duration::zero());
}

}  // namespace
}  // namespace outrider
