// The target's next run: who goes into it, and what each pays for it.
//
//   run.Consider(candidate);  ...              // everybody who could use the target now
//   for (const Scheduler::Share& share : run.Choose()) run.Add(share) ...
//   TargetRun* const asked = run.Begin(now);   // null: there is nothing to do
//   ... it is executed ...
//   for (TargetWork& work : run.End()) ...
//
// There is one run at a time. What is closed meanwhile waits for the next one.
//
// Memory:  as the scheduler's; a run is as large as the largest was.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/speculation/costs/moving_average.h"
#include "common/verification/machine/dry_wait.h"
#include "common/verification/machine/pruning_worth.h"
#include "common/verification/machine/row_worth.h"
#include "common/verification/machine/run_time.h"
#include "common/verification/machine/scheduler.h"
#include "common/verification/machine/verifier_stats.h"
#include "common/verification/target_run.h"

namespace outrider {

class NextRun {
 public:
  NextRun(const Scheduler::Options& options, PruningWay pruning)
      : scheduler_(options), pruning_(pruning) {}

  // Sessions have an account while they are here.
  void OpenAccount(uint64_t session, uint64_t caller, uint32_t share) {
    scheduler_.Open(session, caller, share);
  }
  void CloseAccount(uint64_t session) { scheduler_.Close(session); }

  // None is running.
  void Consider(const Scheduler::Candidate& candidate) { candidates_.push_back(candidate); }
  // Of those that were considered; so many others may want a pass at any moment. With it goes
  // whether the run is pruned (pruning()). What is returned stays until Begin().
  std::span<const Scheduler::Share> Choose(uint32_t expected_count);
  const Scheduler::Candidate& CandidateOf(const Scheduler::Share& share) const {
    return candidates_[share.candidate];
  }
  TargetWork& Add(uint64_t session);
  // Which of the target's exits guess in the next run.
  std::vector<bool>& exits_on() { return run_.exits_on; }
  // Before anything else of the next run.
  void Close(SequenceId sequence) { to_close_.push_back(sequence); }
  TargetRun* Begin(MonotonicTime now);

  // A pass of the run that has ended has committed so many.
  void Committed(uint32_t tokens) { committed_ += tokens; }

  // Everybody has paid for its part. What is returned stays until the next Add().
  std::span<TargetWork> End();

  bool running() const { return running_; }
  MonotonicTime begun_at() const { return begun_at_; }  // the last one
  // Of the run that has ended.
  Duration pass_time() const { return run_.pass_time; }
  std::span<const Duration> exit_time() const { return run_.exit_time; }
  Pruning pruning() const { return run_.pruning; }  // of the newest run that was chosen
  // What passes take; none: not known yet.
  std::optional<DryWait::PassTime> pass_time_known() const {
    if (!pass_seconds_.value()) return std::nullopt;
    return DryWait::PassTime{*pass_seconds_.value(), *pass_cost_.value()};
  }
  // What a run takes; none: not known yet.
  std::optional<RunTime::Line> run_line() const { return scheduler_.run_line(); }
  // Sessions that have a pass in the run or may have one soon, as of the newest run.
  void SetAtWork(uint32_t session_count) { at_work_ = session_count; }
  uint32_t at_work() const { return at_work_; }
  // What a row and a second cost all others, in tokens, and what a drafted node has to promise to be worth
  // its row (row_worth.h); 0 while nothing is known.
  double row_price() const { return RowPrice(at_work_); }
  double second_price() const { return SecondPrice(at_work_); }
  double least_chance() const { return RowWorth::kMargin * row_price(); }
  const RunStats& stats() const { return stats_; }

 private:
  // Where so many sessions are at work.
  double RowPrice(uint32_t session_count) const;
  double SecondPrice(uint32_t session_count) const;
  Pruned SumOfPruned() const;
  void LearnOfPruning(const Pruned& pruned, uint32_t pass_count);
  void Charge(uint32_t rows, uint32_t prompt_tokens);
  void CountDeviceWork();

  Scheduler scheduler_;
  bool running_ = false;
  MonotonicTime begun_at_{};
  TargetRun run_;
  std::vector<SequenceId> to_close_;
  MovingAverage pass_seconds_;
  MovingAverage pass_cost_;
  RowWorth row_worth_;
  uint32_t at_work_ = 0;
  PruningWorth pruning_;
  uint32_t committed_ = 0;  // since the newest run began
  RunStats stats_;
  // Of the run that is being put together.
  std::vector<Scheduler::Candidate> candidates_;
  std::vector<Scheduler::Share> shares_;
};

}  // namespace outrider
