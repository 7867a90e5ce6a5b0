// Threads that share the iterations of a loop, over and over: one dispatch per matrix product.
//
//   OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(4));
//   pool->ParallelFor(head_count, [&](size_t head) { Attend(head); });
//   pool->ParallelRanges(row_count, [&](size_t begin, size_t end, uint32_t worker) {
//     MatVec(rows.subspan(begin, end - begin), scratch[worker]);
//   });
//
// The thread that calls takes part; the others spin for some tens of microseconds after a loop, since
// in a forward pass the next one is about that far away, and then park. A call returns when every
// iteration is done, and what the iterations wrote is visible then. It waits for threads that are at one,
// and not for those that have yet to wake, or to be given a processor: what they come too late for has
// been done by others. Bodies run in IEEE mode (ieee_mode.h) on every thread, the caller's too: none
// computes unlike the others.
//
// Threads: one loop at a time. Two threads may have loops, a target's and its draft's: each loop has all
//          workers, and the other's waits for its turn (loop_turns.h). A loop started inside one of the same pool
//          is a bug and ends the process: it would wait for itself.
// Memory:  the threads; a dispatch allocates nothing.
// Errors:  a body does not fail and does not throw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/loop_turns.h"
#include "common/base/mutex.h"

namespace outrider {

class ThreadPool {
 public:
  static constexpr uint32_t kThreadsMax = 1024;

  // `thread_count` includes the thread that will call, so 1 starts none. InvalidArgument when it is
  // 0 or above kThreadsMax, ResourceExhausted when the machine does not give that many.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Create(uint32_t thread_count);

  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t thread_count() const { return thread_count_; }

  // body(index) for every index below `count`, each taken by whichever thread is free: for
  // iterations of unequal or unknown length, long enough to pay for one shared counter.
  template <typename Body>
  void ParallelFor(size_t count, const Body& body) {
    std::atomic<size_t> next{0};
    Run([&] {
      for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        body(i);
      }
    });
  }

  // body(begin, end, worker) with [0, count) cut into one range per thread, the same on every call:
  // for equal iterations, and for workers that keep memory of their own. Whichever thread is free is
  // a range's worker. Empty ranges are left out.
  template <typename Body>
  void ParallelRanges(size_t count, const Body& body) {
    ParallelFor(thread_count_, [&](size_t index) {
      const auto worker = static_cast<uint32_t>(index);
      const size_t begin = RangeBegin(count, worker);
      const size_t end = RangeBegin(count, worker + 1);
      if (begin < end) body(begin, end, worker);
    });
  }

  // Where the range of `worker` begins; that of thread_count() is the end. Lengths differ by one at
  // most, the longer ones first.
  size_t RangeBegin(size_t count, uint32_t worker) const {
    const size_t longer = count % thread_count_;
    return count / thread_count_ * worker + (worker < longer ? worker : longer);
  }

 private:
  // Something callable, borrowed for one loop: std::function would allocate.
  struct Job {
    const void* callable = nullptr;
    void (*call)(const void* callable) = nullptr;
  };

  explicit ThreadPool(uint32_t thread_count);

  template <typename Callable>
  void Run(const Callable& callable) {
    RunJob({.callable = &callable,
            .call = [](const void* job) noexcept { (*static_cast<const Callable*>(job))(); }});
  }

  void RunJob(Job job);
  absl::Status Start();
  void Work(uint32_t worker);
  void Begin(uint64_t loop);
  uint64_t AwaitLoop(uint64_t& number_seen);
  bool Join(uint64_t loop);
  void AwaitFinished(uint32_t joined);

  const uint32_t thread_count_;  // constant after construction
  const uint32_t spins_;         // how often to look before parking, at least once
  LoopTurns turns_;              // of those who have loops

  // Written by the caller before a loop is open, read by those who have joined it.
  Job job_;
  // A loop's number, whether it is open to who would join, and how many have (thread_pool.cc).
  alignas(64) std::atomic<uint64_t> loop_ = 0;
  alignas(64) std::atomic<uint32_t> finished_ = 0;  // of those who have joined this one

  // Parking. Whoever parks says so here and then looks again; whoever changes loop_ or finished_
  // looks here afterwards. All sequentially consistent, so that one of the two sees the other.
  alignas(64) std::atomic<uint32_t> parked_workers_ = 0;
  std::atomic<bool> caller_parked_ = false;
  Mutex park_mu_;  // guards no data, only the moment between look and Wait()
  CondVar loop_started_;
  CondVar workers_finished_;

  std::vector<std::thread> threads_;  // last: start when all above exists
};

}  // namespace outrider
