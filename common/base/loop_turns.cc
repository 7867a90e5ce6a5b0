#include "common/base/loop_turns.h"

#include "common/base/clock.h"

namespace outrider {

// Not for ever: who waits may be about to have it.
bool LoopTurns::MustGiveWay(std::thread::id self) const {
  return waiting_ > 0 && last_ == self && RealClock().Now() >= slice_end_;
}

void LoopTurns::Begin() {
  const std::thread::id self = std::this_thread::get_id();
  MutexLock lock(mu_);
  if (is_taken_ || MustGiveWay(self)) {
    const bool gives_way = !is_taken_;
    ++waiting_;
    while (is_taken_ || (gives_way && last_ == self)) ended_.Wait(mu_);
    --waiting_;
  }
  is_taken_ = true;
  if (last_ == self) return;
  last_ = self;
  slice_end_ = RealClock().Now() + kSlice;
}

bool LoopTurns::IsAwaited() {
  MutexLock lock(mu_);
  return waiting_ > 0;
}

void LoopTurns::End() {
  bool is_awaited;
  {
    MutexLock lock(mu_);
    is_taken_ = false;
    is_awaited = waiting_ > 0;
  }
  if (is_awaited) ended_.NotifyAll();
}

}  // namespace outrider
