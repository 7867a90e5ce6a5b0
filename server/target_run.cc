#include "server/target_run.h"

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

TargetRunner::TargetRunner(Target& target, const Clock& clock) : target_(target), clock_(clock) {}

void TargetRunner::Execute(TargetRun& run) {
  for (const SequenceId sequence : run.closed) OUTRIDER_CHECK_OK(target_.Close(sequence));
  passes_.clear();
  passing_.clear();
  const MonotonicTime begin = clock_.Now();
  for (TargetWork& work : run.works) {
    work.status = Prepare(work);
    if (!work.status.ok() || !work.has_pass) continue;
    passes_.push_back({*work.sequence, work.nodes, work.chooser, work.history});
    passing_.push_back(&work);
  }
  const MonotonicTime prepared = clock_.Now();
  run.prompt_time = prepared - begin;
  run.pass_time = Duration::zero();
  if (passes_.empty()) return;

  results_.resize(passes_.size());
  target_.Run(passes_, results_);
  for (size_t i = 0; i < passing_.size(); ++i) {
    passing_[i]->status = results_[i].status;
    passing_[i]->outcome = results_[i].outcome;
  }
  run.pass_time = clock_.Now() - prepared;
}

absl::Status TargetRunner::Prepare(TargetWork& work) {
  if (!work.sequence) {
    OUTRIDER_ASSIGN_OR_RETURN(work.sequence, target_.CreateSequence());
  }
  if (work.commit) OUTRIDER_RETURN_IF_ERROR(target_.Commit(*work.sequence, *work.commit));
  if (work.truncate_to) {
    OUTRIDER_RETURN_IF_ERROR(target_.Truncate(*work.sequence, *work.truncate_to));
  }
  return target_.Prefill(*work.sequence, work.prompt, nullptr);
}

}  // namespace outrider
