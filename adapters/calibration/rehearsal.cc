#include "adapters/calibration/rehearsal.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/drafting/lm_drafter.h"
#include "common/speculation/drafting/sketcher.h"
#include "common/speculation/policies/ours_policy.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"
#include "common/tokens/chooser.h"
#include "common/tokens/token_history.h"

namespace outrider {
namespace {

// Policies want to know the time, and nothing here takes any.
constexpr MonotonicTime kNow = {};

constexpr uint32_t kDraftNodes = 256;
constexpr uint32_t kDraftRows = 64;

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(RealClock().Now() - started_).count();
  }

 private:
  const MonotonicTime started_ = RealClock().Now();
};

absl::Status CheckFamily(const Rehearsal::Files& files, const Tokenizer& target) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> draft, OpenTokenizer(files.draft));
  if (draft->fingerprint() == target.fingerprint()) return absl::OkStatus();
  return InvalidArgument(files.draft, ": its tokenizer has fingerprint ",
                         FingerprintDigits(draft->fingerprint()), " and the target's ",
                         FingerprintDigits(target.fingerprint()),
                         "; take a draft of the same family");
}

}  // namespace

void Rehearsal::OnExitTime(uint32_t exit, Duration time) {
  exit_seconds_[exit] += std::chrono::duration<double>(time).count();
}

// --- opening ---

absl::StatusOr<std::unique_ptr<Rehearsal>> Rehearsal::Open(const Files& files,
                                                           uint32_t thread_count) {
  std::unique_ptr<Rehearsal> rehearsal(new Rehearsal());
  rehearsal->kernels_ = &KernelsFor(BestIsa());
  // What can be refused before a model is loaded for nothing.
  OUTRIDER_ASSIGN_OR_RETURN(rehearsal->trained_, ReadExits(files.exits));
  OUTRIDER_ASSIGN_OR_RETURN(rehearsal->tokenizer_, OpenTokenizer(files.target));
  OUTRIDER_RETURN_IF_ERROR(CheckFamily(files, *rehearsal->tokenizer_));
  OUTRIDER_ASSIGN_OR_RETURN(rehearsal->pool_, ThreadPool::Create(thread_count));
  OUTRIDER_RETURN_IF_ERROR(rehearsal->LoadTarget(files));
  OUTRIDER_RETURN_IF_ERROR(rehearsal->LoadDraft(files));
  return rehearsal;
}

absl::Status Rehearsal::LoadTarget(const Files& files) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(files.target));
  std::optional<ProgressBar> bar;
  uint64_t reported = 0;
  const auto progress = [&](uint64_t done, uint64_t total, std::string_view tensor) {
    if (!bar) bar.emplace("loading", total);
    bar->Advance(done - reported, tensor);
    reported = done;
  };
  const EngineOptions options = {
      .context_length = std::min(model->hyperparameters().context_length, kContextMax),
      .node_count_max = kPassNodes};
  OUTRIDER_ASSIGN_OR_RETURN(
      target_, LoadCpuTarget(*model, files.target, options, *kernels_, *pool_, progress));
  if (bar) bar->Finish();
  exit_seconds_.resize(trained_.exits.size());
  target_->HearExits(this);
  return target_->AttachExits(trained_, files.exits, {});
}

absl::Status Rehearsal::LoadDraft(const Files& files) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(files.draft));
  const EngineOptions options = {
      .context_length =
          std::min(target_->info().context_length, model->hyperparameters().context_length),
      .node_count_max = kDraftNodes,
      .row_count_max = kDraftRows};
  OUTRIDER_ASSIGN_OR_RETURN(
      draft_, LoadCpuEngine(*model, files.draft, options, *kernels_, *pool_, nullptr));
  return absl::OkStatus();
}

// --- a reply ---

// One sequence, its draft and its sketch.
class Rehearsal::Session {
 public:
  Session(Rehearsal& rehearsal, Chooser chooser, std::unique_ptr<LmDrafter> drafter)
      : rehearsal_(rehearsal),
        chooser_(std::move(chooser)),
        drafter_(std::move(drafter)),
        history_({.vocabulary_size = chooser_.vocabulary_size(),
                  .capacity = rehearsal.target_->info().context_length}),
        sketcher_({.node_count_max = kPassNodes, .pass_node_count_max = kPassNodes}, policy_,
                  costs_) {}
  ~Session() {
    if (sequence_) OUTRIDER_CHECK_OK(rehearsal_.target_->Close(*sequence_));
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  absl::Status Read(std::span<const TokenId> prompt) {
    OUTRIDER_ASSIGN_OR_RETURN(sequence_, rehearsal_.target_->CreateSequence());
    OUTRIDER_RETURN_IF_ERROR(rehearsal_.target_->Prefill(*sequence_, prompt, nullptr));
    OUTRIDER_RETURN_IF_ERROR(history_.Append(prompt));
    history_.StartReply();
    return absl::OkStatus();
  }

  // Until the drafter holds the tree for good enough, which is in taken_ then.
  absl::Status Grow() {
    for (bool ready = false; !ready;) {
      const std::span<const Sketcher::ToDraft> batch = sketcher_.NextBatch(kNow);
      ready = sketcher_.NextGrowth(kNow).has_value();
      if (ready) sketcher_.sketch().Take(kPassNodes, taken_);
      OUTRIDER_CHECK(ready || !batch.empty(), "who has nothing to draft sends what there is");
      if (!batch.empty()) OUTRIDER_RETURN_IF_ERROR(Draft(batch));
    }
    return absl::OkStatus();
  }

  // The pass over it, and what it commits. Valid until the next call.
  absl::StatusOr<std::span<const TokenId>> Run() {
    candidates_.clear();
    for (const DraftCandidate& one : sketcher_.candidates()) candidates_.push_back(one.token);
    const Pass pass = {*sequence_, taken_.nodes, &chooser_, &history_, candidates_};
    PassResult result;
    const Stopwatch watch;
    rehearsal_.target_->Run({}, {&pass, 1}, {&result, 1});
    rehearsal_.pass_seconds_ += watch.Seconds();
    if (!result.status.ok()) {
      rehearsal_.log_->Drop();
      return result.status;
    }
    const Outcome& outcome = result.outcome;
    written_.clear();
    sketcher_.Decided(taken_.IdOf(outcome.node), outcome.next, kNow, written_);
    rehearsal_.log_->Close(outcome, written_);
    OUTRIDER_RETURN_IF_ERROR(rehearsal_.target_->Commit(*sequence_, outcome));
    OUTRIDER_RETURN_IF_ERROR(history_.Append(written_));
    return written_;
  }

  bool HasRoom() const {
    return history_.size() + kPassNodes < rehearsal_.target_->info().context_length;
  }
  std::span<const TokenId> reply() const { return history_.reply(); }

 private:
  absl::Status Draft(std::span<const Sketcher::ToDraft> batch) {
    sketcher_.sketch().Take(kPassNodes, drafted_);
    contexts_.clear();
    for (const Sketcher::ToDraft& one : batch) {
      const auto at = std::ranges::find(drafted_.ids, one.node);
      contexts_.push_back({one.node == Sketch::kRoot
                               ? DraftedNode::kRoot
                               : static_cast<uint32_t>(at - drafted_.ids.begin()),
                           one.child_count});
    }
    OUTRIDER_RETURN_IF_ERROR(drafter_->Propose(history_, drafted_.nodes, contexts_, proposals_));
    sketcher_.Drafted(sketcher_.newest_batch(), proposals_.children(), kNow);
    return absl::OkStatus();
  }

  Rehearsal& rehearsal_;
  const Chooser chooser_;
  const std::unique_ptr<LmDrafter> drafter_;
  TokenHistory history_;
  const CostModel costs_;
  OursPolicy policy_{/*ahead=*/false};
  Sketcher sketcher_;
  std::optional<SequenceId> sequence_;

  Sketch::Taken taken_;    // of the pass
  Sketch::Taken drafted_;  // of the drafter
  std::vector<Drafter::Context> contexts_;
  Proposals proposals_;
  std::vector<TokenId> candidates_;
  std::vector<TokenId> written_;  // by the last pass
};

absl::StatusOr<std::vector<TokenId>> Rehearsal::Reply(std::span<const TokenId> prompt,
                                                      const SamplingOptions& sampling,
                                                      GuessLog& log) {
  const TargetInfo& info = target_->info();
  const auto vocabulary_size = static_cast<int32_t>(info.vocabulary_size);
  OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser, Chooser::Create(sampling, vocabulary_size));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<LmDrafter> drafter,
                            LmDrafter::Create(*draft_, chooser));
  log_ = &log;
  Session session(*this, chooser, std::move(drafter));
  OUTRIDER_RETURN_IF_ERROR(session.Read(prompt));
  bool ended = false;
  while (!ended && session.HasRoom() && session.reply().size() < kReplyTokens) {
    if (Interrupted()) {
      return absl::CancelledError("stopped by Ctrl-C; nothing has been written");
    }
    OUTRIDER_RETURN_IF_ERROR(session.Grow());
    OUTRIDER_ASSIGN_OR_RETURN(const std::span<const TokenId> written, session.Run());
    ended = std::ranges::any_of(
        written, [&](TokenId token) { return tokenizer_->IsEndOfGeneration(token); });
  }
  return std::vector<TokenId>(session.reply().begin(), session.reply().end());
}

absl::StatusOr<GuessLog> Rehearsal::Replies(std::span<const std::vector<TokenId>> prompts,
                                            SamplingOptions sampling, size_t pass_count) {
  GuessLog log;
  ProgressBar bar(sampling.greedy() ? "writing greedily" : "writing sampled text", pass_count,
                  ProgressUnit::kPasses);
  for (size_t i = 0; i < prompts.size() && log.pass_count() < pass_count; ++i) {
    const size_t before = log.pass_count();
    sampling.sample = static_cast<uint32_t>(i);
    OUTRIDER_RETURN_IF_ERROR(Reply(prompts[i], sampling, log).status());
    bar.Advance(log.pass_count() - before, "");
  }
  bar.Finish();
  return log;
}

}  // namespace outrider
