// When the tokens of a reply came, whoever writes it.
//
// What comes first was waited for together with the prompt, and a writer that checks trees has
// several tokens in it. So they count for the time to the first token, and those after them for the
// speed of the rest: else a draft's first verdict would be text for nothing. Of those, tokens that come
// together share what was waited for them.
//
// Threads: as a vector.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "client/device/conversation.h"
#include "common/base/clock.h"
#include "common/base/time_counts.h"

namespace outrider {

class ReplyTimes {
 public:
  // The reply has been asked for.
  ReplyTimes() : begin_(RealClock().Now()) {}

  void Came(uint64_t token_count) {
    if (token_count == 0) return;
    const MonotonicTime now = RealClock().Now();
    if (!first_) {
      first_ = now;
      first_count_ = token_count;
    } else {
      token_times_.Add((now - last_) / token_count, token_count);
    }
    last_ = now;
    count_ += token_count;
  }

  // The reply has ended.
  void AddTo(ConversationStats& stats) const {
    const MonotonicTime end = RealClock().Now();
    const MonotonicTime first = first_.value_or(end);
    stats.generated_tokens += count_;
    stats.first_token_seconds += Seconds(first - begin_);
    stats.later_tokens += count_ - first_count_;
    stats.later_seconds += Seconds(end - first);
    stats.token_times.Add(token_times_);
  }

 private:
  const MonotonicTime begin_;
  std::optional<MonotonicTime> first_;
  MonotonicTime last_{};
  TimeCounts token_times_;
  uint64_t first_count_ = 0;
  uint64_t count_ = 0;
};

}  // namespace outrider
