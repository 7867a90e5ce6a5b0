// When passes are pruned, by what watching them has shown.
#include "common/verification/machine/pruning_worth.h"

#include <chrono>
#include <cstdint>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr double kTokensPerSecond = 20;

void Watch(PruningWorth& worth, float rows, uint32_t lost, uint32_t count = 100) {
  for (uint32_t i = 0; i < count; ++i) {
    worth.Watched({.node_count = 9, .rows = rows, .lost_count = lost}, milliseconds(2));
  }
}

uint32_t CountOf(PruningWorth& worth, Pruning pruning, uint32_t runs) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < runs; ++i) count += worth.Next() == pruning ? 1 : 0;
  return count;
}

TEST(PruningWorth, WatchesFirst) {
  PruningWorth worth(PruningWay::kAuto);
  for (uint32_t i = 0; i < PruningWorth::kTrial; ++i) {
    ASSERT_EQ(worth.Next(), Pruning::kWatch);
    worth.Watched({.node_count = 9, .rows = 5, .lost_count = 0}, milliseconds(0));
    worth.Judge(/*row_price=*/1, kTokensPerSecond);
    EXPECT_EQ(worth.pays(), i + 1 == PruningWorth::kTrial);
  }
  EXPECT_EQ(worth.Next(), Pruning::kOn);
}

// Six rows of 10 ms each are 60 ms, and so 1.2 tokens; exits take 2 ms, 0.04 tokens.
TEST(PruningWorth, PaysWhereRowsCostMoreThanWhatIsLost) {
  constexpr double kRowPrice = 0.010 * kTokensPerSecond;
  PruningWorth worth(PruningWay::kAuto);
  Watch(worth, 6, 1);
  worth.Judge(kRowPrice, kTokensPerSecond);
  EXPECT_TRUE(worth.pays());
  Watch(worth, 6, 2);
  worth.Judge(kRowPrice, kTokensPerSecond);
  EXPECT_FALSE(worth.pays()) << "two tokens are lost";
  Watch(worth, 0.1f, 0);
  worth.Judge(kRowPrice, kTokensPerSecond);
  EXPECT_FALSE(worth.pays()) << "a tenth of a row is less than the exits take";
  Watch(worth, 6, 0);
  worth.Judge(0.0001 * kRowPrice, kTokensPerSecond);
  EXPECT_FALSE(worth.pays()) << "a pass that waits for flash has rows for nothing";
}

TEST(PruningWorth, IsWatchedOnceInAWhile) {
  PruningWorth worth(PruningWay::kAuto);
  Watch(worth, 6, 0);
  worth.Judge(1, kTokensPerSecond);
  EXPECT_EQ(CountOf(worth, Pruning::kWatch, 10 * PruningWorth::kWatchWhileOn), 10u);
  EXPECT_EQ(CountOf(worth, Pruning::kOff, 100), 0u);
  Watch(worth, 0, 1);
  worth.Judge(1, kTokensPerSecond);
  EXPECT_EQ(CountOf(worth, Pruning::kOn, 100), 0u);
  EXPECT_EQ(CountOf(worth, Pruning::kWatch, 10 * PruningWorth::kWatchWhileOff), 10u);
}

TEST(PruningWorth, DoesAsItIsTold) {
  PruningWorth on(PruningWay::kOn), off(PruningWay::kOff);
  EXPECT_EQ(CountOf(on, Pruning::kOn, 100), 100u);
  EXPECT_EQ(CountOf(off, Pruning::kOff, 100), 100u);
}

}  // namespace
}  // namespace outrider
