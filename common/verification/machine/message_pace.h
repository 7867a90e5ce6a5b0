// How fast a stream may say one thing after the other. What it says takes the machine's time, which is
// everybody's, so who has more to say than a device has is read later; his transport's window fills
// meanwhile, and he waits.
//
//   pace.Took(MessagePace::kEdit, now);   // of a message that has come
//   pace.NextAt()                         // when the next one may be read
//
// So many messages a second, and as many at once as in an eighth of one. An edit is more work than
// growth, which comes as fast as a draft does, and counts as several.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/monotonic_time.h"

namespace outrider {

class MessagePace {
 public:
  static constexpr uint32_t kEdit = 16;
  static constexpr Duration kBurst = std::chrono::milliseconds(125);

  // 0: as fast as they come.
  explicit MessagePace(uint32_t per_second)
      : each_(per_second > 0 ? Duration(std::chrono::seconds(1)) / per_second : Duration::zero()) {}

  void Took(uint32_t count, MonotonicTime now) {
    next_at_ = std::max(next_at_, now - kBurst) + count * each_;
  }

  MonotonicTime NextAt() const { return next_at_; }

 private:
  const Duration each_;
  MonotonicTime next_at_{};
};

}  // namespace outrider
