#include "common/base/thread_pool.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/base/child_process.h"

namespace outrider {
namespace {

std::unique_ptr<ThreadPool> Pool(uint32_t thread_count) {
  absl::StatusOr<std::unique_ptr<ThreadPool>> pool = ThreadPool::Create(thread_count);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

class ThreadPoolOf : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, ::testing::Values(1, 2, 3, 8),
                         ::testing::PrintToStringParamName());

TEST_P(ThreadPoolOf, VisitsEveryIndexOnce) {
  const std::unique_ptr<ThreadPool> pool = Pool(GetParam());
  EXPECT_EQ(pool->thread_count(), GetParam());
  for (const size_t count : {0, 1, 2, 7, 8, 1000}) {
    // Plain ints: what an iteration wrote is visible when the loop has returned, or TSan objects.
    std::vector<int> visits(count, 0);
    pool->ParallelFor(count, [&](size_t i) { ++visits[i]; });
    EXPECT_EQ(visits, std::vector<int>(count, 1));
  }
}

TEST_P(ThreadPoolOf, CutsTheSameRangesOnEveryCall) {
  const std::unique_ptr<ThreadPool> pool = Pool(GetParam());
  for (const size_t count : {0, 1, 2, 7, 8, 1000}) {
    std::vector<uint32_t> first(count, ~0u);
    for (int call = 0; call < 3; ++call) {
      std::vector<uint32_t> owner(count, ~0u);
      pool->ParallelRanges(count, [&](size_t begin, size_t end, uint32_t worker) {
        EXPECT_LT(begin, end);
        EXPECT_LT(worker, pool->thread_count());
        for (size_t i = begin; i < end; ++i) owner[i] = worker;
      });
      EXPECT_TRUE(std::is_sorted(owner.begin(), owner.end()));
      EXPECT_EQ(std::count(owner.begin(), owner.end(), ~0u), 0);
      if (call == 0) first = owner;
      EXPECT_EQ(owner, first);
    }
    size_t shortest = count;
    size_t longest = 0;
    for (uint32_t worker = 0; worker < pool->thread_count(); ++worker) {
      const size_t length = pool->RangeBegin(count, worker + 1) - pool->RangeBegin(count, worker);
      shortest = std::min(shortest, length);
      longest = std::max(longest, length);
    }
    EXPECT_LE(longest - shortest, 1u);
  }
}

TEST_P(ThreadPoolOf, ThousandsOfLoopsInARowAllComplete) {
  const std::unique_ptr<ThreadPool> pool = Pool(GetParam());
  std::vector<uint64_t> sums(pool->thread_count() * 16);  // a cache line each
  uint64_t expected = 0;
  for (uint64_t loop = 0; loop < 3000; ++loop) {
    pool->ParallelRanges(64, [&](size_t begin, size_t end, uint32_t worker) {
      for (size_t i = begin; i < end; ++i) sums[worker * 16] += loop ^ i;
    });
    for (uint64_t i = 0; i < 64; ++i) expected += loop ^ i;
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), expected);
}

TEST_P(ThreadPoolOf, WorkersThatHaveParkedWakeUp) {
  const std::unique_ptr<ThreadPool> pool = Pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // long past any spinning
    std::atomic<int> visits = 0;
    pool->ParallelFor(100, [&](size_t) { visits.fetch_add(1); });
    EXPECT_EQ(visits.load(), 100);
  }
}

TEST_P(ThreadPoolOf, ACallerThatHasParkedWakesUp) {
  const std::unique_ptr<ThreadPool> pool = Pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::atomic<uint32_t> workers = 0;
    pool->ParallelRanges(pool->thread_count(), [&](size_t, size_t, uint32_t worker) {
      if (worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      workers.fetch_add(1);
    });
    EXPECT_EQ(workers.load(), pool->thread_count());
  }
}

TEST_P(ThreadPoolOf, DispatchAllocatesNothing) {
  const std::unique_ptr<ThreadPool> pool = Pool(GetParam());
  std::vector<int> visits(100);
  // A first loop, after which every thread has surely started.
  pool->ParallelFor(100, [&](size_t i) { ++visits[i]; });
  const uint64_t before = AllocationCount();
  for (int loop = 0; loop < 100; ++loop) {
    pool->ParallelFor(100, [&](size_t i) { ++visits[i]; });
    pool->ParallelRanges(100, [&](size_t begin, size_t end, uint32_t) {
      for (size_t i = begin; i < end; ++i) ++visits[i];
    });
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(visits, std::vector<int>(100, 201));
}

TEST(ThreadPool, TheCallerAndAllOthersTakePart) {
  const std::unique_ptr<ThreadPool> pool = Pool(3);
  std::vector<std::thread::id> threads(3);
  std::atomic<int> begun = 0;
  pool->ParallelRanges(3, [&](size_t, size_t, uint32_t worker) {
    threads[worker] = std::this_thread::get_id();
    ++begun;
    while (begun < 3) std::this_thread::yield();  // so nobody has two
  });
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 3u);
  EXPECT_EQ(std::ranges::count(threads, std::this_thread::get_id()), 1);
}

// A thread of this process that does nothing until it is let go on, as one that has no processor.
class HeldThread {
 public:
  explicit HeldThread(pid_t thread) {
    is_released_ = false;
    is_held_ = false;
    struct sigaction hold = {};
    hold.sa_handler = [](int) {
      is_held_ = true;
      while (!is_released_) {
        const timespec moment = {.tv_sec = 0, .tv_nsec = 1'000'000};
        nanosleep(&moment, nullptr);
      }
    };
    sigaction(SIGUSR1, &hold, nullptr);
    syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
    while (!is_held_) std::this_thread::yield();
  }
  ~HeldThread() { is_released_ = true; }

 private:
  static inline std::atomic<bool> is_held_, is_released_;
};

TEST(ThreadPool, NobodyWaitsForAThreadThatHasYetToCome) {
  const std::unique_ptr<ThreadPool> pool = Pool(2);
  std::atomic<pid_t> other = 0;
  std::atomic<int> begun = 0;
  pool->ParallelFor(2, [&](size_t) {
    const auto self = static_cast<pid_t>(syscall(SYS_gettid));
    if (self != getpid()) other = self;
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until it has parked
  int visits = 0;
  std::vector<uint32_t> workers;
  {
    const HeldThread held(other);
    pool->ParallelFor(100, [&](size_t) { ++visits; });
    pool->ParallelRanges(2, [&](size_t, size_t, uint32_t worker) { workers.push_back(worker); });
  }
  EXPECT_EQ(visits, 100);
  EXPECT_EQ(workers, (std::vector<uint32_t>{0, 1}));
  // And it comes again.
  begun = 0;
  pool->ParallelFor(2, [&](size_t) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
}

TEST(ThreadPool, RangesOfHugeCountsDoNotOverflow) {
  const std::unique_ptr<ThreadPool> pool = Pool(3);
  EXPECT_EQ(pool->RangeBegin(SIZE_MAX, 0), 0u);
  EXPECT_EQ(pool->RangeBegin(SIZE_MAX, 1), SIZE_MAX / 3);
  EXPECT_EQ(pool->RangeBegin(SIZE_MAX, 3), SIZE_MAX);
  EXPECT_EQ(pool->RangeBegin(SIZE_MAX - 1, 3), SIZE_MAX - 1);
}

TEST(ThreadPool, PoolsMayBeUsedInsideEachOther) {
  const std::unique_ptr<ThreadPool> outer = Pool(1);
  const std::unique_ptr<ThreadPool> inner = Pool(2);
  std::atomic<int> visits = 0;
  outer->ParallelFor(3,
                     [&](size_t) { inner->ParallelFor(5, [&](size_t) { visits.fetch_add(1); }); });
  EXPECT_EQ(visits.load(), 15);
}

// Whose loops met would share iterations, or return before they are done.
TEST_P(ThreadPoolOf, TwoThreadsHaveLoopsInTurns) {
  const std::unique_ptr<ThreadPool> pool = Pool(GetParam());
  std::atomic<int> inside = 0;  // of loops
  std::atomic<int> most = 0;
  const auto run_loops = [&] {
    for (int loop = 0; loop < 500; ++loop) {
      std::vector<int> visits(64, 0);
      std::atomic<bool> entered = false;
      pool->ParallelFor(visits.size(), [&](size_t i) {
        if (!entered.exchange(true)) most = std::max(most.load(), inside.fetch_add(1) + 1);
        if (i + 1 == visits.size()) inside.fetch_sub(1);
        ++visits[i];
      });
      EXPECT_EQ(visits, std::vector<int>(64, 1));
    }
  };
  std::thread other(run_loops);
  run_loops();
  other.join();
  EXPECT_EQ(most.load(), 1);
}

TEST(ThreadPool, AbsurdThreadCountsAreRefused) {
  EXPECT_EQ(ThreadPool::Create(0).status(),
            InvalidArgument("a pool of 0 threads: ask for 1 to 1024"));
  EXPECT_EQ(ThreadPool::Create(100'000).status(),
            InvalidArgument("a pool of 100000 threads: ask for 1 to 1024"));
}

TEST(ThreadPool, AMachineThatGivesNoThreadIsAnAnswer) {
  const int code = ExitCodeOfChild([] {
    if (!RefuseCalls({{.number = SYS_clone, .error_number = EAGAIN},
                      {.number = SYS_clone3, .error_number = EAGAIN}})) {
      return kNotAllowed;
    }
    const absl::Status status = ThreadPool::Create(4).status();
    return status == ResourceExhausted("the machine gives 1 of the 4 threads asked for: ",
                                       "Resource temporarily unavailable")
               ? 0
               : 1;
  });
  if (code == kNotAllowed) GTEST_SKIP() << "this machine does not let a test filter system calls";
  EXPECT_EQ(code, 0);
}

class ThreadPoolDeathTest : public ::testing::Test {
 protected:
  // The child of a death test starts anew instead of inheriting threads it does not have.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ThreadPoolDeathTest, ALoopInsideALoopIsABug) {
  for (const uint32_t thread_count : {1u, 2u}) {
    EXPECT_DEATH(
        {
          const std::unique_ptr<ThreadPool> pool = Pool(thread_count);
          pool->ParallelFor(2, [&](size_t) { pool->ParallelFor(2, [](size_t) {}); });
        },
        "a pool runs no loop inside another of its own");
  }
}

}  // namespace
}  // namespace outrider
