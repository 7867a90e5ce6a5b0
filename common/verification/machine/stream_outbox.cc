#include "common/verification/machine/stream_outbox.h"

#include "common/base/check.h"
#include "common/verification/wire_padding.h"
#include "common/verification/wire_time.h"

namespace outrider {

StreamOutbox::StreamOutbox(uint32_t verdict_count_max) : verdicts_(verdict_count_max) {
  OUTRIDER_CHECK(verdict_count_max > 0, "a verdict has a place to wait");
}

v1::ServerMessage& StreamOutbox::Fill(Slot& slot) {
  OUTRIDER_CHECK(!has_fault(), "a fault is the last message of a stream");
  slot.waits = true;
  return slot.message;
}

v1::Opened& StreamOutbox::AddOpened() {
  OUTRIDER_CHECK(!hello_.waits, "a stream is attached once");
  v1::Opened& opened = *Fill(hello_).mutable_opened();
  opened.Clear();
  return opened;
}

v1::Resumed& StreamOutbox::AddResumed() {
  OUTRIDER_CHECK(!hello_.waits, "a stream is attached once");
  v1::Resumed& resumed = *Fill(hello_).mutable_resumed();
  resumed.Clear();
  return resumed;
}

v1::Verdict& StreamOutbox::AddVerdict(std::optional<MonotonicTime> seen_at) {
  OUTRIDER_CHECK(!has_fault(), "a fault is the last message of a stream");
  OUTRIDER_CHECK(verdict_count_ < verdicts_.size(), "no pass begins without room for its verdict");
  VerdictSlot& slot = verdicts_[(first_verdict_ + verdict_count_++) % verdicts_.size()];
  slot.seen_at = seen_at;
  v1::Verdict& verdict = *slot.message.mutable_verdict();
  verdict.Clear();
  hints_overtaken_ += hints_.Clear();
  progress_.waits = false;
  return verdict;
}

v1::Fault& StreamOutbox::AddFault() {
  v1::Fault& fault = *Fill(fault_).mutable_fault();
  fault.Clear();
  hints_.Clear();
  draining_.waits = progress_.waits = false;
  return fault;
}

v1::Draining& StreamOutbox::SetDraining() {
  v1::Draining& draining = *Fill(draining_).mutable_draining();
  draining.Clear();
  return draining;
}

v1::PromptProgress& StreamOutbox::SetProgress() {
  v1::PromptProgress& progress = *Fill(progress_).mutable_progress();
  progress.Clear();
  return progress;
}

bool StreamOutbox::AddHint(const v1::Hint& hint, double rank) {
  OUTRIDER_CHECK(!has_fault(), "a fault is the last message of a stream");
  return hints_.Add(hint, rank);
}

const v1::ServerMessage* StreamOutbox::Next(MonotonicTime now) {
  if (writing_ || empty()) return nullptr;
  writing_ = true;
  TakeFirst(now);
  PadTo(frame_bytes_, written_);
  return &written_;
}

void StreamOutbox::TakeFirst(MonotonicTime now) {
  if (hello_.waits) return Take(hello_);
  if (verdict_count_ > 0) return TakeVerdict(now);
  if (fault_.waits) return Take(fault_);
  if (draining_.waits) return Take(draining_);
  if (!hints_.empty()) return TakeHint();
  Take(progress_);
}

void StreamOutbox::Take(Slot& slot) {
  slot.waits = false;
  written_.Swap(&slot.message);
}

void StreamOutbox::TakeVerdict(MonotonicTime now) {
  VerdictSlot& slot = verdicts_[first_verdict_];
  first_verdict_ = (first_verdict_ + 1) % verdicts_.size();
  --verdict_count_;
  writing_verdict_ = true;
  if (slot.seen_at) {
    v1::Verdict& verdict = *slot.message.mutable_verdict();
    verdict.set_since_seen_us(WireMicroseconds(now - *slot.seen_at));
  }
  written_.Swap(&slot.message);
}

void StreamOutbox::TakeHint() {
  *written_.mutable_hint() = hints_.TakeFirst();
}

void StreamOutbox::Written() {
  OUTRIDER_CHECK(writing_, "what is written was given out");
  writing_ = writing_verdict_ = false;
}

bool StreamOutbox::empty() const {
  return verdict_count_ == 0 && !hello_.waits && !fault_.waits && !draining_.waits &&
         hints_.empty() && !progress_.waits;
}

uint32_t StreamOutbox::unread_verdict_count() const {
  return static_cast<uint32_t>(verdict_count_) + (writing_verdict_ ? 1 : 0);
}

}  // namespace outrider
