#include "common/base/bounded_priority_queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"

namespace outrider {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

template <typename T, typename Priority>
std::vector<T> Drain(BoundedPriorityQueue<T, Priority>& queue) {
  std::vector<T> values;
  while (std::optional<T> value = queue.TryPop()) values.push_back(*std::move(value));
  return values;
}

TEST(BoundedPriorityQueue, ServesTheHighestFirstAndTheOldestAmongEquals) {
  BoundedPriorityQueue<std::string> queue(8);
  EXPECT_EQ(queue.TryPush(0.5, "a"), PushAnswer::kAccepted);
  EXPECT_EQ(queue.TryPush(0.9, "b"), PushAnswer::kAccepted);
  EXPECT_EQ(queue.TryPush(0.5, "c"), PushAnswer::kAccepted);
  EXPECT_EQ(queue.TryPush(0.9, "d"), PushAnswer::kAccepted);
  EXPECT_EQ(queue.TryPush(-1, "e"), PushAnswer::kAccepted);
  EXPECT_EQ(queue.size(), 5u);
  EXPECT_THAT(Drain(queue), ElementsAre("b", "d", "a", "c", "e"));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedPriorityQueue, RefusesWhenFullAndLeavesTheCallerItsValue) {
  BoundedPriorityQueue<std::unique_ptr<int>, int> queue(1);
  EXPECT_EQ(queue.TryPush(1, std::make_unique<int>(1)), PushAnswer::kAccepted);
  auto second = std::make_unique<int>(2);
  EXPECT_EQ(queue.TryPush(2, std::move(second)), PushAnswer::kFull);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(**queue.TryPop(), 1);
  EXPECT_EQ(queue.TryPush(2, std::move(second)), PushAnswer::kAccepted);
  EXPECT_EQ(**queue.TryPop(), 2);
}

TEST(BoundedPriorityQueue, EvictsTheYoungestOfTheLowestForAHigherOneOnly) {
  BoundedPriorityQueue<std::string, int> queue(3);
  std::optional<std::string> evicted;
  EXPECT_EQ(queue.PushOrEvict(1, "old low", &evicted), PushAnswer::kAccepted);
  EXPECT_EQ(queue.PushOrEvict(1, "young low", &evicted), PushAnswer::kAccepted);
  EXPECT_EQ(queue.PushOrEvict(3, "high", &evicted), PushAnswer::kAccepted);
  EXPECT_EQ(evicted, std::nullopt);

  std::string equal = "equal";
  EXPECT_EQ(queue.PushOrEvict(1, std::move(equal), &evicted), PushAnswer::kFull);
  EXPECT_EQ(equal, "equal");  // NOLINT(bugprone-use-after-move): refused is not moved from
  EXPECT_EQ(evicted, std::nullopt);

  EXPECT_EQ(queue.PushOrEvict(2, "middle", &evicted), PushAnswer::kAccepted);
  EXPECT_EQ(evicted, "young low");
  EXPECT_EQ(queue.PushOrEvict(4, "highest"), PushAnswer::kAccepted);
  EXPECT_THAT(Drain(queue), ElementsAre("highest", "high", "middle"));
}

// Against the obvious: a list kept in order.
TEST(BoundedPriorityQueue, AgreesWithASortedListOnAnySequence) {
  struct Item {
    int priority;
    int number;
  };
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const size_t capacity : {1, 2, 3, 7, 16}) {
    BoundedPriorityQueue<int, int> queue(capacity);
    std::vector<Item> sorted;  // served from the front
    for (int number = 0; number < 5000; ++number) {
      const int priority = static_cast<int>(random() % 6);
      const auto at = std::find_if(sorted.begin(), sorted.end(),
                                   [&](const Item& item) { return item.priority < priority; });
      switch (random() % 4) {
        case 0: {
          const std::optional<int> popped = queue.TryPop();
          ASSERT_EQ(popped.has_value(), !sorted.empty());
          if (!popped) break;
          ASSERT_EQ(*popped, sorted.front().number);
          sorted.erase(sorted.begin());
          break;
        }
        case 1: {
          const bool room = sorted.size() < capacity;
          ASSERT_EQ(queue.TryPush(priority, int{number}),
                    room ? PushAnswer::kAccepted : PushAnswer::kFull);
          if (room) sorted.insert(at, {priority, number});
          break;
        }
        default: {
          std::optional<int> evicted;
          const bool full = sorted.size() == capacity;
          const bool accepted = !full || sorted.back().priority < priority;
          ASSERT_EQ(queue.PushOrEvict(priority, int{number}, &evicted),
                    accepted ? PushAnswer::kAccepted : PushAnswer::kFull);
          ASSERT_EQ(evicted.has_value(), full && accepted);
          if (accepted) sorted.insert(at, {priority, number});
          if (evicted) {
            ASSERT_EQ(*evicted, sorted.back().number);
            sorted.pop_back();
          }
        }
      }
      ASSERT_EQ(queue.size(), sorted.size());
    }
  }
}

TEST(BoundedPriorityQueue, ClosedAcceptsNothingAndIsDrained) {
  BoundedPriorityQueue<int> queue(4);
  EXPECT_EQ(queue.TryPush(1, 10), PushAnswer::kAccepted);
  EXPECT_EQ(queue.TryPush(2, 20), PushAnswer::kAccepted);
  EXPECT_FALSE(queue.closed());
  queue.Close();
  queue.Close();
  EXPECT_TRUE(queue.closed());
  EXPECT_EQ(queue.TryPush(3, 30), PushAnswer::kClosed);
  EXPECT_EQ(queue.PushOrEvict(3, 30), PushAnswer::kClosed);
  EXPECT_EQ(queue.Pop(), 20);
  EXPECT_EQ(queue.PopFor(seconds(60)), 10);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_EQ(queue.PopFor(seconds(60)), std::nullopt);
}

TEST(BoundedPriorityQueue, PopWaitsForAPushOrTheEnd) {
  BoundedPriorityQueue<int> queue(4);
  std::vector<int> popped;
  std::thread consumer([&] {
    while (std::optional<int> value = queue.Pop()) popped.push_back(*value);
  });
  for (int i = 0; i < 100; ++i) {
    while (queue.TryPush(0, int{i}) == PushAnswer::kFull) std::this_thread::yield();
  }
  queue.Close();
  consumer.join();
  ASSERT_EQ(popped.size(), 100u);
  EXPECT_TRUE(std::is_sorted(popped.begin(), popped.end()));
}

TEST(BoundedPriorityQueue, APopWithADeadlineWaitsThatLongOnTheQueuesClock) {
  FakeClock clock;
  BoundedPriorityQueue<int> queue(4, clock);
  EXPECT_EQ(queue.PopUntil(clock.Now()), std::nullopt);

  std::optional<int> popped = 0;
  std::thread consumer([&] { popped = queue.PopFor(seconds(10)); });
  clock.AwaitWaiters(1);
  clock.Advance(seconds(9));
  clock.AwaitWaiters(1);
  clock.Advance(seconds(1));
  consumer.join();
  EXPECT_EQ(popped, std::nullopt);

  consumer = std::thread([&] { popped = queue.PopFor(seconds(10)); });
  clock.AwaitWaiters(1);
  EXPECT_EQ(queue.TryPush(1, 7), PushAnswer::kAccepted);
  consumer.join();
  EXPECT_EQ(popped, 7);

  consumer = std::thread([&] { popped = queue.PopFor(seconds(10)); });
  clock.AwaitWaiters(1);
  queue.Close();
  consumer.join();
  EXPECT_EQ(popped, std::nullopt);
}

TEST(BoundedPriorityQueue, ManyProducersAndConsumersLoseAndRepeatNothing) {
  constexpr int kProducers = 3;
  constexpr int kConsumers = 3;
  constexpr int kEach = 2000;
  BoundedPriorityQueue<int, int> queue(16);
  std::vector<std::vector<int>> popped(kConsumers);
  std::vector<std::thread> consumers;
  for (std::vector<int>& mine : popped) {
    consumers.emplace_back([&queue, &mine] {
      while (std::optional<int> value = queue.Pop()) mine.push_back(*value);
    });
  }
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kEach; ++i) {
        while (queue.TryPush(i % 5, p * kEach + i) == PushAnswer::kFull) std::this_thread::yield();
      }
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();

  std::vector<int> all;
  for (const std::vector<int>& mine : popped) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), static_cast<size_t>(kProducers * kEach));
  for (int i = 0; i < kProducers * kEach; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
}

TEST(BoundedPriorityQueue, AllocatesNothingOnceMade) {
  BoundedPriorityQueue<int, int> queue(64);
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 1000; ++i) {
    queue.PushOrEvict(i * 7 % 101, int{i});
    if (i % 3 == 0) queue.TryPop();
    queue.TryPush(i % 50, int{i});
  }
  EXPECT_EQ(AllocationCount(), before);
}

TEST(BoundedPriorityQueueDeathTest, NanIsNoPriority) {
  BoundedPriorityQueue<int> queue(1);
  EXPECT_DEATH(queue.TryPush(std::nan(""), 1), "priorities are ordered");
  EXPECT_DEATH(queue.PushOrEvict(std::nan(""), 1), "priorities are ordered");
}

}  // namespace
}  // namespace outrider
