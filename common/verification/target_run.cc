#include "common/verification/target_run.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

TargetRunner::TargetRunner(Target& target, const Clock& clock, HearGuess hear)
    : target_(target),
      clock_(clock),
      hear_(std::move(hear)),
      exits_on_(target.info().exit_depths.size(), true) {
  if (hear_) target_.HearExits(this);
}

TargetRunner::~TargetRunner() {
  if (hear_) target_.HearExits(nullptr);
}

void TargetRunner::Execute(TargetRun& run) {
  run_ = &run;
  SwitchExits(run);
  ForkAndClose(run);
  readings_.clear();
  reading_.clear();
  passes_.clear();
  passing_.clear();
  for (TargetWork& work : run.works) {
    if (work.status.ok()) work.status = Prepare(work);
    if (!work.status.ok()) continue;
    if (!work.prompt.empty()) {
      readings_.push_back({*work.sequence, work.prompt});
      reading_.push_back(&work);
    }
    if (work.has_pass) {
      passes_.push_back({.sequence = *work.sequence,
                         .nodes = work.nodes,
                         .chooser = work.chooser,
                         .history = work.history,
                         .candidates = work.candidates,
                         .is_guessed = work.is_guessed,
                         .pruning = run.pruning});
      passing_.push_back(&work);
    }
  }
  results_.assign(passes_.size(), {});
  const MonotonicTime begin = clock_.Now();
  if (!readings_.empty() || !passes_.empty()) target_.Run(readings_, passes_, results_);
  ShareOut(clock_.Now() - begin, run);
  run.device_work = target_.CollectDeviceWork();
  for (size_t i = 0; i < passing_.size(); ++i) {
    passing_[i]->status = results_[i].status;
    passing_[i]->outcome = results_[i].outcome;
    passing_[i]->pruned = results_[i].pruned;
  }
  for (size_t i = 0; i < reading_.size(); ++i) {
    if (!readings_[i].status.ok()) reading_[i]->status = readings_[i].status;
  }
}

void TargetRunner::OnGuess(const ExitGuess& guess) {
  hear_(passing_[guess.walk]->session, guess);
}

void TargetRunner::OnExitTime(uint32_t exit, Duration time) {
  run_->exit_time[exit] += time;
}

void TargetRunner::SwitchExits(TargetRun& run) {
  run.exit_time.assign(exits_on_.size(), Duration::zero());
  for (uint32_t exit = 0; exit < exits_on_.size(); ++exit) {
    const bool on = exit >= run.exits_on.size() || run.exits_on[exit];
    if (exits_on_[exit] != on) target_.SwitchExit(exit, on);
    exits_on_[exit] = on;
  }
}

// In the order in which sessions came and went, but for forks, which are made as late as can be: so
// there are never more sequences than memory was lent for.
void TargetRunner::ForkAndClose(TargetRun& run) {
  for (TargetWork& work : run.works) work.status = absl::OkStatus();
  for (const SequenceId sequence : run.closed) {
    ForkFrom(sequence, run);
    OUTRIDER_CHECK_OK(target_.Close(sequence));
  }
  for (TargetWork& work : run.works) {
    if (work.fork) work.status = Fork(work);
  }
}

void TargetRunner::ForkFrom(SequenceId sequence, TargetRun& run) {
  for (TargetWork& work : run.works) {
    if (work.fork && work.fork->from == sequence) work.status = Fork(work);
  }
}

absl::Status TargetRunner::Fork(TargetWork& work) {
  const TargetFork fork = *std::exchange(work.fork, std::nullopt);
  OUTRIDER_ASSIGN_OR_RETURN(work.sequence, target_.Fork(fork.from, fork.length));
  return absl::OkStatus();
}

absl::Status TargetRunner::Prepare(TargetWork& work) {
  if (!work.sequence) {
    OUTRIDER_ASSIGN_OR_RETURN(work.sequence, target_.CreateSequence());
  }
  if (work.commit) OUTRIDER_RETURN_IF_ERROR(target_.Commit(*work.sequence, *work.commit));
  if (work.truncate_to) {
    OUTRIDER_RETURN_IF_ERROR(target_.Truncate(*work.sequence, *work.truncate_to).status());
  }
  return absl::OkStatus();
}

// By rows, which is what a run's time goes by where both are in it.
void TargetRunner::ShareOut(Duration time, TargetRun& run) const {
  int64_t read = 0;
  int64_t passed = 0;
  for (const Reading& reading : readings_) read += static_cast<int64_t>(reading.tokens.size());
  for (const Pass& pass : passes_) passed += static_cast<int64_t>(1 + pass.nodes.size());
  run.pass_time = passed == 0 ? Duration::zero() : time * passed / (read + passed);
  run.prompt_time = time - run.pass_time;
}

}  // namespace outrider
