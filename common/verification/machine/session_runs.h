// What sessions have of the target's runs: who goes into the next one, and what came of the last.
//
//   runs.Begin();      // RunTarget, if the target is idle and somebody wants something of it
//   runs.Hear(hint);   // while it runs
//   runs.End();        // it is done: verdicts, progress, faults
//
// A pass may begin once the root is known and the tokens before it are read (session_pace.h says
// when it does). Sessions whose devices have not seen the last verdicts get none: what a transport
// has taken says nothing, so the device tells (Grow.seen), and at first few may be on their way.
//
// Memory:  a verdict and a hint.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/verification/machine/attachments.h"
#include "common/verification/machine/exit_worth.h"
#include "common/verification/machine/scheduler.h"
#include "common/verification/machine/verifier_state.h"
#include "common/verification/target_run.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class SessionRuns {
 public:
  // Both outlive it.
  SessionRuns(VerifierState& state, Attachments& attachments);

  void Begin();
  void Hear(const VerifierEvents::HintFound& event);
  void End();

  // When the next run is to begin; none: when it can.
  std::optional<MonotonicTime> begin_at() const { return begin_at_; }

  const WritingStats& stats() const { return stats_; }
  uint64_t hints_sent() const { return hints_sent_; }
  const ExitWorth& exit_worth() const { return exit_worth_; }

  // For tests.
  void CheckInvariants() const;

 private:
  SessionMemory::Idle WhenIdle(const VerifierSession& session) const;
  void Gather(VerifierSession& session);
  void ConsiderGathered();
  Duration GatheringTime() const;
  struct Turn {
    uint32_t prompt_tokens;  // to be read
    bool starts;             // its next pass
    Scheduler::Claim claim;
  };
  std::optional<Turn> TurnOf(VerifierSession& session);
  void Consider(VerifierSession& session);
  bool Joins(const VerifierSession& session) const;
  bool MustBeSeenFirst(const VerifierSession& session) const;
  double LeastChanceOf(const VerifierSession& session) const;
  void CountNodes(const VerifierSession& session, Scheduler::Candidate& candidate) const;
  void BeginWork(const Scheduler::Share& share);
  void BeginFork(VerifierSession& session);
  bool WantsHints(const VerifierSession& session) const;
  void EndWork(TargetWork& work);
  void EndPrompt(VerifierSession& session, uint32_t count);
  void EndPass(VerifierSession& session, const TargetWork& work);
  double RankOf(const v1::Hint& hint);

  VerifierState& state_;
  Attachments& attachments_;
  std::optional<MonotonicTime> begin_at_;
  // Who wants what of the next run: as it was when something last changed for them, and looked at
  // again when the run begins.
  std::map<uint64_t, Scheduler::Claim> gathered_;
  uint32_t ready_count_ = 0;   // of those, who have a part in it
  uint32_t beside_count_ = 0;  // who would only join one of others
  // Of the run that is put together: who is ready, and who may be at any moment.
  WritingStats stats_;
  uint64_t hints_sent_ = 0;
  ExitWorth exit_worth_;
  // Working memory.
  v1::Verdict unsent_verdict_;  // of a session without a stream
  v1::Hint hint_;
};

}  // namespace outrider
