// Virtual time: what is due next happens next, and the clock jumps there.
//
//   EventQueue events;
//   events.After(std::chrono::milliseconds(20), [&] { verdict.Arrive(); });
//   while (!done && events.RunNext()) {}
//
// Of what is due at the same moment, what was asked for first happens first, so a run is the same
// every time. Nothing is ever cancelled: what may have become pointless by the time it is due finds
// that out itself.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/monotonic_time.h"

namespace outrider {

class EventQueue {
 public:
  using Action = std::function<void()>;

  MonotonicTime now() const { return now_; }

  // What was due before now is due now.
  void At(MonotonicTime due, Action action);
  void After(Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // False when nothing is due any more.
  bool RunNext();

  uint64_t run_count() const { return run_count_; }

 private:
  struct Event {
    MonotonicTime due;
    uint64_t number;
    Action action;
  };

  static bool Later(const Event& a, const Event& b) {
    return a.due != b.due ? a.due > b.due : a.number > b.number;
  }

  MonotonicTime now_{std::chrono::hours(1)};  // so that a time in the past is still positive
  std::vector<Event> heap_;                   // the first is due next
  uint64_t number_ = 0;
  uint64_t run_count_ = 0;
};

}  // namespace outrider
