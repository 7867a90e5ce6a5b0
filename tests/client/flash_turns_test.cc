// Who computes when: the draft's layers come while the target waits or rests, and never begin while it
// computes.
#include "client/device/flash_turns.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

// A draft that asks for layer after layer.
class FlashTurnsTest : public testing::Test {
 protected:
  ~FlashTurnsTest() override {
    stopping_ = true;
    turns_.End();
    draft_.join();
  }

  // Whether layers have begun within a while, after one that may have been under way.
  bool LayersBegin(milliseconds time) {
    std::this_thread::sleep_for(milliseconds(5));
    const uint64_t before = layers_;
    std::this_thread::sleep_for(time);
    return layers_ != before;
  }

  FlashTurns turns_;
  std::atomic<uint64_t> layers_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread draft_{[this] {
    while (!stopping_) {
      turns_.Await();
      ++layers_;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }};
};

TEST_F(FlashTurnsTest, LayersBeginWhileTheTargetWaitsOrRests) {
  EXPECT_TRUE(LayersBegin(milliseconds(50))) << "nothing runs";
  for (int pass = 0; pass < 3; ++pass) {
    turns_.Begin();
    EXPECT_FALSE(LayersBegin(milliseconds(20))) << "it computes";
    std::atomic<bool> landed = false;
    bool began = false;
    std::thread flash([&] {
      began = LayersBegin(milliseconds(50));
      landed = true;
    });
    turns_.Lend(landed);
    EXPECT_TRUE(landed);
    flash.join();
    EXPECT_TRUE(began) << "it waits";
    EXPECT_FALSE(LayersBegin(milliseconds(20))) << "what it waited for has landed";
    turns_.End();
    EXPECT_TRUE(LayersBegin(milliseconds(50)));
  }
}

}  // namespace
}  // namespace outrider
