#include "bench/simulator/world/event_queue.h"

#include <chrono>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

TEST(EventQueue, RunsWhatIsDueInTheOrderOfTimeAndThenOfAsking) {
  EventQueue events;
  std::vector<int> order;
  events.After(milliseconds(2), [&] { order.push_back(3); });
  events.After(milliseconds(1), [&] { order.push_back(1); });
  events.After(milliseconds(1), [&] { order.push_back(2); });
  while (events.RunNext()) {
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  EXPECT_EQ(events.run_count(), 3u);
}

TEST(EventQueue, TheClockShowsWhenWhatRunsWasDue) {
  EventQueue events;
  const MonotonicTime begin = events.now();
  std::vector<Duration> times;
  events.After(milliseconds(5), [&] {
    times.push_back(events.now() - begin);
    events.After(milliseconds(5), [&] { times.push_back(events.now() - begin); });
    events.At(begin, [&] { times.push_back(events.now() - begin); });  // past: now
  });
  while (events.RunNext()) {
  }
  EXPECT_THAT(times, ElementsAre(milliseconds(5), milliseconds(5), milliseconds(10)));
}

}  // namespace
}  // namespace outrider
