#include "common/verification/machine/sequence_at_target.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

void SequenceAtTarget::BeginAs(const TargetFork& fork, bool takes_over) {
  OUTRIDER_CHECK(!exists() && !in_run_ && read_count_ == 0, "a fork is of a sequence's beginning");
  read_count_ = fork.length;
  if (!takes_over) {
    fork_ = fork;
    return;
  }
  id_ = fork.from;
  truncate_to_ = fork.length;
}

void SequenceAtTarget::Truncate(uint32_t length) {
  OUTRIDER_CHECK(!in_run_, "what is in a run stands still");
  if (length >= read_count_) return;
  read_count_ = length;
  computed_count_ = std::min(computed_count_, length);
  if (id_ || fork_) truncate_to_ = length;
}

std::optional<SequenceId> SequenceAtTarget::Forget() {
  OUTRIDER_CHECK(!in_run_, "what is in a run stands still");
  fork_.reset();
  read_count_ = 0;
  computed_count_ = 0;
  commit_.reset();
  truncate_to_.reset();
  return std::exchange(id_, std::nullopt);
}

void SequenceAtTarget::BeginWork(std::span<const TokenId> prompt, MonotonicTime now,
                                 TargetWork& work) {
  OUTRIDER_CHECK(!in_run_, "a session is in one run at a time");
  in_run_ = true;
  begun_count_ = read_count_;
  work.fork = std::exchange(fork_, std::nullopt);
  work.sequence = id_;
  work.commit = std::exchange(commit_, std::nullopt);
  work.truncate_to = std::exchange(truncate_to_, std::nullopt);
  work.prompt = prompt;
  if (!prompt.empty() && !reading_) reading_ = {read_count_, now};
}

void SequenceAtTarget::EndWork(const TargetWork& work) {
  OUTRIDER_CHECK(in_run_, "what ends was begun");
  in_run_ = false;
  id_ = work.sequence;
  if (!work.status.ok()) return;
  // What a pass computes is kept when its outcome is committed, with the next run.
  computed_count_ = begun_count_;
  if (!work.has_pass) computed_count_ += static_cast<uint32_t>(work.prompt.size());
}

void SequenceAtTarget::PromptRead(uint32_t count, uint32_t total) {
  read_count_ += count;
  OUTRIDER_CHECK(read_count_ <= total, "the target has read what is committed");
  if (read_count_ == total) reading_.reset();
}

void SequenceAtTarget::PassCommitted(const Outcome& outcome, uint32_t length) {
  commit_ = outcome;
  read_count_ = length;
}

}  // namespace outrider
