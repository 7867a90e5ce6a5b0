#include "adapters/generation/continuations.h"

#include <algorithm>
#include <memory>

#include "common/base/status.h"
#include "common/tokens/chooser.h"
#include "common/tokens/token_history.h"

namespace outrider {
namespace {

// A text being written.
struct Writing {
  size_t index;  // of its prompt
  SequenceId sequence;
  Chooser chooser;
  TokenHistory history;
};

class Writer {
 public:
  Writer(Target& target, std::span<const std::vector<TokenId>> prompts,
         const ContinuationOptions& options)
      : target_(target), prompts_(prompts), options_(options), texts_(prompts.size()) {}
  ~Writer() {
    for (const auto& writing : writings_) target_.Close(writing->sequence).IgnoreError();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  absl::Status Write(const ContinuationProgress& progress) {
    for (;;) {
      while (writings_.size() < target_.info().sequence_count_max && next_ < prompts_.size()) {
        OUTRIDER_RETURN_IF_ERROR(Begin(next_++));
      }
      if (writings_.empty()) return absl::OkStatus();
      const auto written = static_cast<uint32_t>(writings_.size());
      OUTRIDER_RETURN_IF_ERROR(Step());
      if (progress && !progress(written)) return absl::CancelledError("stopped while writing");
    }
  }

  std::vector<std::vector<TokenId>> TakeTexts() { return std::move(texts_); }

 private:
  absl::Status Begin(size_t index) {
    const std::vector<TokenId>& prompt = prompts_[index];
    const TargetInfo& info = target_.info();
    if (prompt.empty() || prompt.size() >= info.context_length) {
      return InvalidArgument("prompt ", index, " has ", prompt.size(),
                             " tokens; it needs one, and ", "the context of ", info.context_length,
                             " room for another");
    }
    const auto vocabulary_size = static_cast<int32_t>(info.vocabulary_size);
    SamplingOptions sampling = options_.sampling;
    sampling.sample = static_cast<uint32_t>(index);
    OUTRIDER_ASSIGN_OR_RETURN(Chooser chooser, Chooser::Create(sampling, vocabulary_size));
    TokenHistory history({.vocabulary_size = vocabulary_size,
                          .capacity = size_t{info.context_length} + 1,
                          .counts_tokens = sampling.penalizes()});
    OUTRIDER_RETURN_IF_ERROR(history.Append(prompt));
    history.StartReply();
    OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, target_.CreateSequence());
    writings_.push_back(std::make_unique<Writing>(
        Writing{index, sequence, std::move(chooser), std::move(history)}));
    return target_.Prefill(sequence, prompt, nullptr);
  }

  // One token of each.
  absl::Status Step() {
    std::vector<Pass> passes;
    for (const auto& writing : writings_) {
      passes.push_back({writing->sequence, {}, &writing->chooser, &writing->history});
    }
    std::vector<PassResult> results(passes.size());
    target_.Run({}, passes, results);
    for (size_t i = writings_.size(); i-- > 0;) {
      OUTRIDER_RETURN_IF_ERROR(results[i].status);
      OUTRIDER_ASSIGN_OR_RETURN(const bool ended, Take(*writings_[i], results[i].outcome));
      if (!ended) continue;
      OUTRIDER_RETURN_IF_ERROR(target_.Close(writings_[i]->sequence));
      writings_.erase(writings_.begin() + static_cast<ptrdiff_t>(i));
    }
    return absl::OkStatus();
  }

  // Whether that was all of the text.
  absl::StatusOr<bool> Take(Writing& writing, const Outcome& outcome) {
    const bool is_end = std::ranges::find(options_.ends, outcome.next) != options_.ends.end();
    if (!is_end) {
      OUTRIDER_RETURN_IF_ERROR(target_.Commit(writing.sequence, outcome));
      OUTRIDER_RETURN_IF_ERROR(writing.history.Append({&outcome.next, 1}));
    }
    const size_t length = writing.history.size();
    if (!is_end && writing.history.reply().size() < options_.token_count &&
        length < target_.info().context_length) {
      return false;
    }
    const auto tokens = writing.history.tokens();
    texts_[writing.index].assign(tokens.begin(), tokens.end());
    return true;
  }

  Target& target_;
  const std::span<const std::vector<TokenId>> prompts_;
  const ContinuationOptions& options_;
  size_t next_ = 0;  // of the prompts
  std::vector<std::unique_ptr<Writing>> writings_;
  std::vector<std::vector<TokenId>> texts_;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<TokenId>>> ContinueTexts(
    Target& target, std::span<const std::vector<TokenId>> prompts,
    const ContinuationOptions& options, const ContinuationProgress& progress) {
  Writer writer(target, prompts, options);
  OUTRIDER_RETURN_IF_ERROR(writer.Write(progress));
  return writer.TakeTexts();
}

}  // namespace outrider
