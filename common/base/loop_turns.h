// Whose turn it is at a pool of threads: that of who has had it, for some milliseconds of one loop after
// another, and then that of who waits.
//
//   LoopTurn turn(turns_);       // until its end
//
// By the loop, turns would be lost in waking one another, since a loop takes less time than that; and a plain mutex
// is taken again by who has just left it, so that others might wait for as long as he computes.
//
// Threads: any may have turns, each as itself.
#pragma once

#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"

namespace outrider {

class LoopTurns {
 public:
  static constexpr Duration kSlice = std::chrono::milliseconds(2);

  // Waits for it.
  void Begin();
  void End();
  // Whether anybody waits.
  bool IsAwaited();

 private:
  bool MustGiveWay(std::thread::id self) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar ended_;
  bool is_taken_ ABSL_GUARDED_BY(mu_) = false;
  uint32_t waiting_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread::id last_ ABSL_GUARDED_BY(mu_);          // who has it, or had it
  MonotonicTime slice_end_ ABSL_GUARDED_BY(mu_) = {};  // of his, while others wait
};

class LoopTurn {
 public:
  explicit LoopTurn(LoopTurns& turns) : turns_(turns) { turns_.Begin(); }
  ~LoopTurn() { turns_.End(); }
  LoopTurn(const LoopTurn&) = delete;
  LoopTurn& operator=(const LoopTurn&) = delete;

 private:
  LoopTurns& turns_;
};

}  // namespace outrider
