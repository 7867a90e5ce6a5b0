// What an event costs the verifier machine, however many sessions there are beside the one that it
// is of. Times are of a machine that others use too: the least of many is compared, and loosely.
#include <algorithm>
#include <chrono>
#include <vector>

#include "gtest/gtest.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using Machine = VerifierMachine;
using std::chrono::seconds;

// A factor that no linear cost of a hundred times as many sessions stays below.
constexpr double kAboutAsMuch = 10;

class EventCost {
 public:
  explicit EventCost(uint32_t session_count)
      : session_count_(session_count), world_(ConfigFor(session_count)) {
    for (uint64_t nonce = 1; nonce <= session_count; ++nonce) Open(nonce);
    world_.Runs();
  }

  // All who are there lose their memory to others, and want it back.
  void FillTheQueue() {
    world_.Pass(seconds(6));
    for (uint64_t nonce = session_count_ + 1; nonce <= 2 * session_count_; ++nonce) Open(nonce);
    world_.Runs();
    for (uint32_t i = 0; i < session_count_; ++i) Send(i);
  }

  void Send(size_t i) { world_.Send(streams_[i], ChainOf(0, 0, {})); }

  // Of a message that changes nothing.
  double Seconds() {
    const auto message = ChainOf(0, 0, {});
    double least = 1;
    for (int i = 0; i < 2000; ++i) {
      actions_.clear();
      const auto begin = std::chrono::steady_clock::now();
      world_.machine().Handle(Machine::Received{streams_[0], message}, world_.clock().Now(),
                              actions_);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      least = std::min(least, time.count());
    }
    return least;
  }

  VerifierWorld& world() { return world_; }

 private:
  static VerifierConfig ConfigFor(uint32_t session_count) {
    VerifierConfig config = SmallConfig();
    config.session_count_max = config.session_count_of_key_max = 2 * session_count;
    config.stream_count_of_key_max = config.stream_count_max;
    config.sequence_count_max = session_count;
    config.page_groups = {{.page_count = session_count * kPagesOfOne}};
    return config;
  }

  void Open(uint64_t nonce) {
    streams_.push_back(world_.Connect());
    world_.Send(streams_.back(), OpenOf(nonce, "once"));
  }

  const uint32_t session_count_;
  VerifierWorld world_;
  std::vector<Machine::StreamNumber> streams_;
  std::vector<Machine::Action> actions_;
};

TEST(VerifierEvents, CostTheSameHoweverManyWaitForMemory) {
  EventCost few(10);
  EventCost many(1000);
  few.FillTheQueue();
  many.FillTheQueue();
  ASSERT_EQ(few.world().machine().stats().sessions_waiting, 10u);
  ASSERT_EQ(many.world().machine().stats().sessions_waiting, 1000u);
  const double of_few = few.Seconds();
  const double of_many = many.Seconds();
  RecordProperty("nanoseconds_of_10", static_cast<int>(1e9 * of_few));
  RecordProperty("nanoseconds_of_1000", static_cast<int>(1e9 * of_many));
  EXPECT_LT(of_many, kAboutAsMuch * of_few);
}

}  // namespace
}  // namespace outrider
