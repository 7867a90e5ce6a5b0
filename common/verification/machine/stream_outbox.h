// What waits to be written to one stream, and the message that is being written.
//
// In this order: the answer to Open or Resume; verdicts; the fault that ends the stream; that the
// server is draining; a hint; the progress of a prompt. Of the last three the newest takes the
// place of one that waits, and a hint and progress go when a verdict is there: they have been
// overtaken. After a fault nothing is added.
//
// Bound: one of each, and `verdict_count_max` verdicts. Messages keep their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/monotonic_time.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class StreamOutbox {
 public:
  explicit StreamOutbox(uint32_t verdict_count_max);

  // The places of messages to be filled in, empty. There is room, and no fault.
  v1::Opened& AddOpened();
  v1::Resumed& AddResumed();
  // `seen_at` is when the last node came that its pass had seen; none: it is not to say.
  v1::Verdict& AddVerdict(std::optional<MonotonicTime> seen_at);
  v1::Fault& AddFault();
  v1::Draining& SetDraining();
  v1::PromptProgress& SetProgress();
  // False: it says nothing that the one before it did not.
  bool SetHint(const v1::Hint& hint);

  // The next message, which stays as it is until Written(). Null: nothing waits, or one is being
  // written.
  const v1::ServerMessage* Next(MonotonicTime now);
  void Written();

  bool writing() const { return writing_; }
  bool has_fault() const { return fault_.waits; }
  bool empty() const;  // nothing waits; something may be being written
  // Waiting or being written.
  uint32_t unread_verdict_count() const;
  uint64_t hints_overtaken() const { return hints_overtaken_; }

 private:
  struct Slot {
    v1::ServerMessage message;
    bool waits = false;
  };
  struct VerdictSlot {
    v1::ServerMessage message;
    std::optional<MonotonicTime> seen_at;
  };

  v1::ServerMessage& Fill(Slot& slot);
  const v1::ServerMessage* Take(Slot& slot);
  const v1::ServerMessage* TakeVerdict(MonotonicTime now);

  Slot hello_;
  std::vector<VerdictSlot> verdicts_;  // a ring
  size_t first_verdict_ = 0;
  size_t verdict_count_ = 0;
  Slot fault_;
  Slot draining_;
  Slot hint_;
  Slot progress_;
  v1::Hint last_hint_;
  uint64_t hints_overtaken_ = 0;

  bool writing_ = false;
  bool writing_verdict_ = false;
  v1::ServerMessage written_;  // being written
};

}  // namespace outrider
