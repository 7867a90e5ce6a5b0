// What the draft beside the target is doing for one session whose device leaves drafting to it.
//
//   off --Ask(true)--> idle --Begin()--> at work --End()--> idle
//
// There is one job at a time. The session's tokens may change meanwhile (an edit, or a device that
// drafted for a while): then what comes of it is of another text, and of no use.
//
// Bounds:  a job has the tokens that the draft has not been told of.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/verification/draft_job.h"
#include "common/verification/verified_sequence.h"

namespace outrider {

class DraftHere {
 public:
  static constexpr uint32_t kChain = 4;  // drafted tokens of a pass

  // Whether it is to begin a job: the root is known, and nothing was drafted below it here.
  bool IsWanted(const VerifiedSequence& sequence) const;
  // `least_chance`: of a node, to be worth its row.
  DraftJob Begin(uint64_t session, const VerifiedSequence& sequence, double least_chance);
  // When the job that begins next will probably be done.
  void SetDue(MonotonicTime due) { due_ = due; }
  // None: nothing is under way, or nobody knows.
  std::optional<MonotonicTime> due() const { return is_at_work() ? due_ : std::nullopt; }
  uint32_t job_token_count() const { return job_token_count_; }  // that the newest was told
  // The job has been done. Whether that was for the text there is.
  bool End(const VerifiedSequence& sequence);

  // The session's tokens end here now, if they did not before.
  void Truncate(uint32_t length);

  bool is_at_work() const { return working_for_.has_value(); }
  // Whether somebody keeps something of this session.
  bool is_known() const { return is_known_; }

 private:
  bool is_known_ = false;
  uint32_t known_count_ = 0;  // tokens that the draft has been told
  uint32_t job_token_count_ = 0;
  std::optional<MonotonicTime> due_;
  std::optional<uint64_t> working_for_;  // the hash of the tokens of the job at work
};

}  // namespace outrider
