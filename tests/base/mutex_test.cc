#include "common/base/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

class Counter {
 public:
  void Add() {
    MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }

  void AwaitAtLeast(int count) {
    MutexLock lock(mu_);
    while (count_ < count) changed_.Wait(mu_);
  }

  // False when that has not happened by `deadline`.
  bool AwaitUntil(int count, MonotonicTime deadline) {
    MutexLock lock(mu_);
    while (count_ < count) {
      if (!changed_.WaitUntil(mu_, deadline)) return count_ >= count;
    }
    return true;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST(Mutex, CountsFromManyThreadsAddUp) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 1000; ++i) counter.Add();
    });
  }
  counter.AwaitAtLeast(4000);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(counter.AwaitUntil(4001, std::chrono::steady_clock::now()));
}

TEST(CondVar, ADeadlineEndsTheWaitAndNotBefore) {
  Counter counter;
  const MonotonicTime deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  EXPECT_FALSE(counter.AwaitUntil(1, deadline));
  EXPECT_GE(std::chrono::steady_clock::now(), deadline);
}

TEST(CondVar, ANotificationEndsTheWaitBeforeItsDeadline) {
  Counter counter;
  std::thread other([&counter] { counter.Add(); });
  EXPECT_TRUE(counter.AwaitUntil(1, std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  other.join();
}

}  // namespace
}  // namespace outrider
