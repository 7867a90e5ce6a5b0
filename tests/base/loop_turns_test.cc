#include "common/base/loop_turns.h"

#include <atomic>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace outrider {
namespace {

// Waits for a turn, and writes 'b' in it.
std::thread StartWaiting(LoopTurns& turns, std::string& order) {
  std::thread other([&] {
    const LoopTurn turn(turns);
    order += 'b';
  });
  while (!turns.IsAwaited()) std::this_thread::yield();
  return other;
}

TEST(LoopTurnsTest, ATurnIsAwaited) {
  LoopTurns turns;
  turns.Begin();
  std::string order;
  std::thread other = StartWaiting(turns, order);
  order += 'a';
  turns.End();
  other.join();
  EXPECT_EQ(order, "ab");
}

// Though who has just had it is sooner there than a thread that has to be woken.
TEST(LoopTurnsTest, WhoHasHadHisSliceGivesWayToWhoWaits) {
  LoopTurns turns;
  for (int round = 0; round < 20; ++round) {
    turns.Begin();
    std::string order;
    std::thread other = StartWaiting(turns, order);
    std::this_thread::sleep_for(LoopTurns::kSlice);
    turns.End();
    turns.Begin();
    order += 'a';
    turns.End();
    other.join();
    EXPECT_EQ(order, "ba");
  }
}

TEST(LoopTurnsTest, WhoeverWaitsHasTurnsBesideOneWhoNeverRests) {
  LoopTurns turns;
  std::atomic<bool> is_over = false;
  std::thread restless([&] {
    while (!is_over) const LoopTurn turn(turns);
  });
  for (int turn_count = 0; turn_count < 100; ++turn_count) const LoopTurn turn(turns);
  is_over = true;
  restless.join();
}

}  // namespace
}  // namespace outrider
