// Where a session stands with its streams: which one counts, what it waits for, and how long it
// will.
//
//   idle --Ask--> attaching --Answered--> attached --Close--> closing
//                 |  ^                     |
//                 v  | Ask                 |
//               waiting <-------Wait-------+
//
// Attempts follow one another after back-off: half to all of backoff_min, then of twice that, and
// so on up to backoff_max. Patience is counted from the newest progress, which is what brings the
// text further; a verifier that can be reached and does nothing is given up as one that cannot.
//
// Threads: as a vector.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"

namespace outrider {

struct LinkOptions {
  // From when a stream is asked for until Opened or Resumed.
  Duration answer_deadline = std::chrono::seconds(20);
  // Of an attached stream while the verifier owes a verdict.
  Duration silence_max = std::chrono::seconds(60);
  // Of a farewell.
  Duration close_deadline = std::chrono::seconds(2);
  // Without progress: before the first attachment, and after it.
  Duration first_patience = std::chrono::seconds(5);
  Duration patience = std::chrono::minutes(2);
  Duration backoff_min = std::chrono::milliseconds(50);
  Duration backoff_max = std::chrono::seconds(5);
};

class Link {
 public:
  enum class Phase { kIdle, kWaiting, kAttaching, kAttached, kClosing };

  explicit Link(const LinkOptions& options) : options_(options) {}

  // A new stream; returns its number.
  uint64_t Ask(MonotonicTime now);
  void Answered(MonotonicTime now);
  void Heard(MonotonicTime now) { heard_at_ = now; }
  void Progressed(MonotonicTime now);
  void Close(MonotonicTime now);
  // No stream, and none is wanted.
  void Rest() { phase_ = Phase::kIdle; }
  // No stream, and another is asked for after back-off of at least `at_least`. `bits` jitter it.
  // False, and nothing has changed, when patience will have ended by then.
  bool Wait(MonotonicTime now, Duration at_least, uint64_t bits);

  // When somebody is to look again. `owed`: a verdict is.
  std::optional<MonotonicTime> Deadline(bool owed) const;

  Phase phase() const { return phase_; }
  bool has_stream() const { return phase_ != Phase::kIdle && phase_ != Phase::kWaiting; }
  bool attached() const { return phase_ == Phase::kAttached; }
  uint64_t stream() const { return stream_; }
  uint32_t attempts() const { return attempts_; }  // since the newest progress
  MonotonicTime asked_at() const { return asked_at_; }
  const LinkOptions& options() const { return options_; }

 private:
  const LinkOptions options_;
  Phase phase_ = Phase::kIdle;
  uint64_t stream_ = 0;  // the newest that was asked for
  bool was_attached_ = false;
  uint32_t attempts_ = 0;
  MonotonicTime asked_at_ = {};
  MonotonicTime heard_at_ = {};
  MonotonicTime progress_at_ = {};
  MonotonicTime deadline_ = {};  // of waiting and closing
};

}  // namespace outrider
