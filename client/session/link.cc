#include "client/session/link.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

uint64_t Link::Ask(MonotonicTime now) {
  OUTRIDER_CHECK(!has_stream(), "one stream at a time");
  phase_ = Phase::kAttaching;
  asked_at_ = now;
  ++attempts_;
  return ++stream_;
}

void Link::Answered(MonotonicTime now) {
  OUTRIDER_CHECK(phase_ == Phase::kAttaching, "an answer is to a question");
  phase_ = Phase::kAttached;
  was_attached_ = true;
  heard_at_ = now;
}

void Link::Progressed(MonotonicTime now) {
  progress_at_ = now;
  attempts_ = 0;
}

void Link::Close(MonotonicTime now) {
  OUTRIDER_CHECK(attached(), "only who is attached says farewell");
  phase_ = Phase::kClosing;
  deadline_ = now + options_.close_deadline;
}

bool Link::Wait(MonotonicTime now, Duration at_least, uint64_t bits) {
  const uint32_t doublings = std::min(attempts_ > 0 ? attempts_ - 1 : 0, 20u);
  const Duration whole =
      std::min(options_.backoff_min * (int64_t{1} << doublings), options_.backoff_max);
  const double share = 0.5 + 0.5 * static_cast<double>(bits >> 11) * 0x1p-53;
  const Duration jittered(static_cast<int64_t>(static_cast<double>(whole.count()) * share));
  const MonotonicTime again = now + std::max(at_least, whole / 2) + (jittered - whole / 2);
  if (again > progress_at_ + (was_attached_ ? options_.patience : options_.first_patience)) {
    return false;
  }
  phase_ = Phase::kWaiting;
  deadline_ = again;
  return true;
}

std::optional<MonotonicTime> Link::Deadline(bool owed) const {
  switch (phase_) {
    case Phase::kIdle:
      return std::nullopt;
    case Phase::kWaiting:
    case Phase::kClosing:
      return deadline_;
    case Phase::kAttaching:
      return asked_at_ + options_.answer_deadline;
    case Phase::kAttached:
      return owed ? std::optional(heard_at_ + options_.silence_max) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace outrider
