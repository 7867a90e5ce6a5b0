// What computes, in virtual time: one thing after the other, in the order in which it was asked.
//
//   const MonotonicTime done = processor.Take(pass_time);
//   events.At(done, [&] { verdict.Arrive(); });
//
// A target and a draft have one each, or share one: then what one does the other waits for. So do all
// drafts, where their devices share a processor.
//
// Threads: one.
#pragma once

#include <algorithm>

#include "bench/simulator/world/event_queue.h"
#include "common/base/check.h"

namespace outrider {

// A processor that stands still for `length` of every `every`, as one does that others use as well.
struct Stalls {
  Duration length{0};
  Duration every = std::chrono::seconds(1);
};

class Processor {
 public:
  // `events` outlive it.
  explicit Processor(const EventQueue& events, const Stalls& stalls = {})
      : events_(events), stalls_(stalls) {
    OUTRIDER_CHECK(stalls.length < stalls.every, "a processor moves at times");
  }

  // Work of so much time: when it is done.
  MonotonicTime Take(Duration time) {
    return free_at_ = End(std::max(free_at_, events_.now()), time);
  }
  // Whatever was under way is given up.
  void Clear() { free_at_ = {}; }

 private:
  // Of work that begins then.
  MonotonicTime End(MonotonicTime begin, Duration time) const {
    if (stalls_.length == Duration::zero()) return begin + time;
    const Duration moving = stalls_.every - stalls_.length;
    const Duration phase = begin.time_since_epoch() % stalls_.every;
    const Duration done =
        std::max(Duration::zero(), phase - stalls_.length);  // of what moves in this one
    const Duration since = done + time;
    const auto stalls_passed = since / moving;
    return begin - phase + (stalls_passed + 1) * stalls_.length + since;
  }

  const EventQueue& events_;
  const Stalls stalls_;
  MonotonicTime free_at_{};
};

}  // namespace outrider
