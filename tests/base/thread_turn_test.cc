#include "common/base/thread_turn.h"

#include <sched.h>
#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <thread>

#include "gtest/gtest.h"
#include "tests/base/turn_ns.h"

namespace outrider {
namespace {

uint64_t TurnNsAfter(const std::function<void()>& what) {
  uint64_t turn = 0;
  std::thread([&] {
    what();
    turn = TurnNs();
  }).join();
  return turn;
}

class ThreadTurnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (usual_ == 0) GTEST_SKIP() << "this kernel has one length of turns for all";
  }

  const uint64_t usual_ = TurnNs();
};

TEST_F(ThreadTurnTest, WhoIsPromptHasShorterTurnsThanOthers) {
  EXPECT_LT(TurnNsAfter(BePrompt), usual_);
}

TEST_F(ThreadTurnTest, WhoIsPatientHasLongerTurnsThanOthers) {
  EXPECT_GT(TurnNsAfter(BePatient), usual_);
}

TEST_F(ThreadTurnTest, ThoseThatItStartsHaveTurnsLikeOthers) {
  EXPECT_EQ(TurnNsAfter([this] {
              BePrompt();
              EXPECT_EQ(TurnNsAfter([] {}), usual_);
            }),
            TurnNsAfter(BePrompt));
}

// A thread has a nice value of its own, under Linux.
TEST_F(ThreadTurnTest, IsNoMoreImportantThanItWas) {
  EXPECT_LT(TurnNsAfter([] {
              constexpr int kNice = 7;
              ASSERT_EQ(setpriority(PRIO_PROCESS, 0, kNice), 0);
              BePrompt();
              EXPECT_EQ(getpriority(PRIO_PROCESS, 0), kNice);
            }),
            usual_);
}

TEST_F(ThreadTurnTest, WhoIsOfAnotherPolicyStaysSo) {
  EXPECT_EQ(TurnNsAfter([] {
              const sched_param none{};
              ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
              BePrompt();
              EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
            }),
            usual_);
}

}  // namespace
}  // namespace outrider
