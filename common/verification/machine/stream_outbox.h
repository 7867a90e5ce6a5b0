// What waits to be written to one stream, and the message that is being written.
//
// In this order: the answer to Open or Resume; verdicts; the fault that ends the stream; that the
// server is draining; hints, as their queue has them (hint_queue.h); the progress of a prompt. That
// and a notice of draining take the place of one that waits; hints and progress go when a verdict
// is there: they have been overtaken. After a fault nothing is added.
//
// Bound: one of each, `verdict_count_max` verdicts and a queue of hints. Messages keep their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/verification/machine/hint_queue.h"
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
  // False: it says nothing new.
  bool AddHint(const v1::Hint& hint, double rank);

  // Of what is written from here on, each message has a multiple (wire_padding.h); 0: as it comes.
  void SetFrameBytes(uint32_t frame_bytes) { frame_bytes_ = frame_bytes; }

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
  // Each puts the message in written_.
  void Take(Slot& slot);
  void TakeVerdict(MonotonicTime now);
  void TakeHint();
  void TakeFirst(MonotonicTime now);

  Slot hello_;
  std::vector<VerdictSlot> verdicts_;  // a ring
  size_t first_verdict_ = 0;
  size_t verdict_count_ = 0;
  Slot fault_;
  Slot draining_;
  HintQueue hints_;
  Slot progress_;
  uint64_t hints_overtaken_ = 0;
  uint32_t frame_bytes_ = 0;

  bool writing_ = false;
  bool writing_verdict_ = false;
  v1::ServerMessage written_;  // being written
};

}  // namespace outrider
