// What computes, in virtual time: one thing after the other, in the order in which it was asked.
//
//   const MonotonicTime done = processor.Take(pass_time);
//   events.At(done, [&] { verdict.Arrive(); });
//
// A target and a draft have one each, or share one: then what one does the other waits for.
//
// Threads: one.
#pragma once

#include <algorithm>

#include "bench/simulator/world/event_queue.h"

namespace outrider {

class Processor {
 public:
  // `events` outlive it.
  explicit Processor(const EventQueue& events) : events_(events) {}

  // Work of so much time: when it is done.
  MonotonicTime Take(Duration time) { return free_at_ = std::max(free_at_, events_.now()) + time; }
  // Whatever was under way is given up.
  void Clear() { free_at_ = {}; }

 private:
  const EventQueue& events_;
  MonotonicTime free_at_{};
};

}  // namespace outrider
