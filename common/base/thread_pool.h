// Threads that share the iterations of a loop, over and over: one dispatch per matrix product.
//
//   OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(4));
//   pool->ParallelFor(head_count, [&](size_t head) { Attend(head); });
//   pool->ParallelRanges(row_count, [&](size_t begin, size_t end, uint32_t worker) {
//     MatVec(rows.subspan(begin, end - begin), scratch[worker]);
//   });
//
// The thread that calls takes part, as worker 0; the others spin for some tens of microseconds
// after a loop, since in a forward pass the next one is about that far away, and then park. A call
// returns when every iteration is done, and what the iterations wrote is visible then. Bodies run
// in IEEE mode (ieee_mode.h) on every thread, the caller's too: none computes unlike the others.
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
    Run([&](uint32_t) {
      for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        body(i);
      }
    });
  }

  // body(begin, end, worker) with [0, count) cut into one range per worker, the same on every call:
  // for equal iterations, and for workers that keep memory of their own. Empty ranges are left out.
  template <typename Body>
  void ParallelRanges(size_t count, const Body& body) {
    Run([&](uint32_t worker) {
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
    void (*call)(const void* callable, uint32_t worker) = nullptr;
  };

  explicit ThreadPool(uint32_t thread_count);

  template <typename Callable>
  void Run(const Callable& callable) {
    RunJob({.callable = &callable, .call = [](const void* job, uint32_t worker) noexcept {
              (*static_cast<const Callable*>(job))(worker);
            }});
  }

  void RunJob(Job job);
  absl::Status Start();
  void Work(uint32_t worker);
  uint32_t AwaitLoop(uint32_t loops_seen);
  void AwaitWorkers();

  const uint32_t thread_count_;  // constant after construction
  const uint32_t spins_;         // how often to look before parking
  LoopTurns turns_;              // of those who have loops

  // Written by the caller before it raises loops_, read by workers after they have seen that.
  Job job_;                                        // null: stop
  alignas(64) std::atomic<uint32_t> loops_ = 0;    // started so far, modulo 2^32
  alignas(64) std::atomic<uint32_t> working_ = 0;  // threads that have yet to finish this one

  // Parking. Whoever parks says so here and then looks again; whoever changes loops_ or working_
  // looks here afterwards. All sequentially consistent, so that one of the two sees the other.
  alignas(64) std::atomic<uint32_t> parked_workers_ = 0;
  std::atomic<bool> caller_parked_ = false;
  Mutex park_mu_;  // guards no data, only the moment between look and Wait()
  CondVar loop_started_;
  CondVar workers_finished_;

  std::vector<std::thread> threads_;  // last: start when all above exists
};

}  // namespace outrider
