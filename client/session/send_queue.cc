#include "client/session/send_queue.h"

#include "common/base/check.h"

namespace outrider {

v1::ClientMessage& SendQueue::Slot() {
  OUTRIDER_CHECK(count_ < kCapacity, "who adds has asked for room");
  return at(count_++);
}

v1::ClientMessage* SendQueue::Next() {
  if (writing_ || empty()) return nullptr;
  v1::ClientMessage* const message = &at(0);
  first_ = (first_ + 1) % kCapacity;
  --count_;
  writing_ = true;
  return message;
}

void SendQueue::DropGrowth() {
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (at(i).has_grow()) continue;
    if (kept != i) at(kept).Swap(&at(i));
    ++kept;
  }
  count_ = kept;
}

bool SendQueue::has_tune() const {
  for (size_t i = 0; i < count_; ++i) {
    if (at(i).has_tune()) return true;
  }
  return false;
}

void SendQueue::Clear() {
  count_ = 0;
  writing_ = false;
}

}  // namespace outrider
