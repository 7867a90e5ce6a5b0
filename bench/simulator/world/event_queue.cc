#include "bench/simulator/world/event_queue.h"

#include <algorithm>
#include <utility>

namespace outrider {

void EventQueue::At(MonotonicTime due, Action action) {
  heap_.push_back({std::max(due, now_), number_++, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool EventQueue::RunNext() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.due;
  ++run_count_;
  event.action();
  return true;
}

}  // namespace outrider
