#include "common/base/prompt_thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>

#include "gtest/gtest.h"

namespace outrider {
namespace {

// How long this thread's turns are, as the kernel has it; 0 where all are of one length.
uint64_t TurnNs() {
  constexpr size_t kRuntimeAt = 24;  // in the kernel's struct sched_attr
  std::array<char, 56> attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), attributes.size(), 0), 0);
  uint64_t turn = 0;
  std::memcpy(&turn, attributes.data() + kRuntimeAt, sizeof(turn));
  return turn;
}

uint64_t TurnNsAfter(const std::function<void()>& what) {
  uint64_t turn = 0;
  std::thread([&] {
    what();
    turn = TurnNs();
  }).join();
  return turn;
}

class PromptThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (usual_ == 0) GTEST_SKIP() << "this kernel has one length of turns for all";
  }

  const uint64_t usual_ = TurnNs();
};

TEST_F(PromptThreadTest, HasShorterTurnsThanOthers) {
  EXPECT_LT(TurnNsAfter(BePrompt), usual_);
}

TEST_F(PromptThreadTest, ThoseThatItStartsHaveTurnsLikeOthers) {
  EXPECT_EQ(TurnNsAfter([this] {
              BePrompt();
              EXPECT_EQ(TurnNsAfter([] {}), usual_);
            }),
            TurnNsAfter(BePrompt));
}

// A thread has a nice value of its own, under Linux.
TEST_F(PromptThreadTest, IsNoMoreImportantThanItWas) {
  EXPECT_LT(TurnNsAfter([] {
              constexpr int kNice = 7;
              ASSERT_EQ(setpriority(PRIO_PROCESS, 0, kNice), 0);
              BePrompt();
              EXPECT_EQ(getpriority(PRIO_PROCESS, 0), kNice);
            }),
            usual_);
}

TEST_F(PromptThreadTest, WhoIsOfAnotherPolicyStaysSo) {
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
