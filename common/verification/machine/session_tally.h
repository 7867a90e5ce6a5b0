// What has become of one session's passes, as those who watch the server are told; each is added to
// what there is of all sessions.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/verification/machine/verifier_stats.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class SessionTally {
 public:
  explicit SessionTally(MonotonicTime now) : opened_at_(now), reply_begun_at_(now) {}

  void Attached() { ++attachments_; }
  // A reply is to be written from here on.
  void ReplyBegun(MonotonicTime now);
  // The target sees to it.
  void RunBegun(MonotonicTime now, WritingStats& all);
  // What its part of a run has taken of the target's time.
  void Charged(Duration time) { target_time_ += time; }
  void PassEnded(uint32_t node_count, uint32_t token_count, v1::Finish finish, MonotonicTime now,
                 WritingStats& all);

  MonotonicTime opened_at() const { return opened_at_; }
  uint32_t attachments() const { return attachments_; }
  uint64_t passes() const { return passes_; }
  uint64_t nodes() const { return nodes_; }
  uint64_t accepted() const { return accepted_; }
  uint64_t tokens() const { return tokens_; }
  Duration target_time() const { return target_time_; }
  // Of its first reply; none: there was none.
  std::optional<Duration> first_token_time() const { return first_token_time_; }

 private:
  void TokensCame(uint32_t count, MonotonicTime now, WritingStats& all);

  MonotonicTime opened_at_;
  MonotonicTime reply_begun_at_;
  bool awaits_run_ = true;                      // the reply its first one
  MonotonicTime first_token_at_{};              // of the reply, if it has tokens
  std::optional<MonotonicTime> last_token_at_;  // of the reply
  uint64_t reply_tokens_ = 0;
  std::optional<Duration> first_token_time_;
  uint32_t attachments_ = 0;
  uint64_t passes_ = 0;
  uint64_t nodes_ = 0;
  uint64_t accepted_ = 0;
  uint64_t tokens_ = 0;
  Duration target_time_{};
};

}  // namespace outrider
