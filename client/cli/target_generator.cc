#include "client/cli/target_generator.h"

#include <algorithm>
#include <chrono>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"

namespace outrider {
namespace {

double SecondsSince(MonotonicTime start) {
  return std::chrono::duration<double>(RealClock().Now() - start).count();
}

}  // namespace

TargetGenerator::TargetGenerator(Target& target, const Chooser& chooser,
                                 const StopConditions& stops)
    : target_(target),
      chooser_(chooser),
      stops_(stops),
      history_({.vocabulary_size = static_cast<int32_t>(target.info().vocabulary_size),
                .capacity = size_t{target.info().context_length} + 1,
                .counts_tokens = chooser.options().penalizes()}) {}

absl::Status TargetGenerator::Open() {
  OUTRIDER_ASSIGN_OR_RETURN(sequence_, target_.CreateSequence());
  return absl::OkStatus();
}

absl::Status TargetGenerator::Continue(std::span<const TokenId> tokens, bool is_reply,
                                       const TextSink& sink) {
  finish_.reset();
  const uint32_t context_length = target_.info().context_length;
  if (tokens.size() > context_length) {
    return InvalidArgument("a text of ", tokens.size(), " tokens does not fit into a context of ",
                           context_length, "; shorten it, or give a larger --context");
  }
  const auto [differs, unused] = std::ranges::mismatch(tokens, history_.tokens());
  const auto shared = static_cast<uint32_t>(differs - tokens.begin());
  OUTRIDER_RETURN_IF_ERROR(target_.Truncate(sequence_, shared));
  OUTRIDER_RETURN_IF_ERROR(history_.Truncate(shared));
  const absl::Status status = Read(tokens.subspan(shared));
  if (absl::IsCancelled(status)) return absl::OkStatus();
  OUTRIDER_RETURN_IF_ERROR(status);
  history_.StartReply();
  return Write(is_reply, sink);
}

absl::Status TargetGenerator::Read(std::span<const TokenId> tokens) {
  const MonotonicTime start = RealClock().Now();
  std::optional<ProgressBar> bar;
  uint32_t reported = 0;
  const absl::Status status =
      target_.Prefill(sequence_, tokens, [&](uint32_t processed, uint32_t total) {
        if (!bar) bar.emplace("reading the prompt", total, ProgressUnit::kTokens);
        bar->Advance(processed - reported, "");
        reported = processed;
        return !Interrupted();
      });
  if (bar) bar->Finish();
  times_.prompt_seconds += SecondsSince(start);
  times_.prompt_tokens += tokens.size();
  times_.computed_tokens += reported;
  OUTRIDER_RETURN_IF_ERROR(status);
  return history_.Append(tokens);
}

absl::Status TargetGenerator::Write(bool is_reply, const TextSink& sink) {
  const MonotonicTime start = RealClock().Now();
  Reply reply(stops_, is_reply ? std::span<const TokenId>() : history_.tokens());
  absl::Status status;
  while (!reply.finish() && !Interrupted() && !history_is_full()) {
    const Pass pass = {sequence_, {}, &chooser_, &history_};
    PassResult result;
    target_.Run({&pass, 1}, {&result, 1});
    status = result.status;
    if (!status.ok()) break;
    const TokenId next = result.outcome.next;
    OUTRIDER_RETURN_IF_ERROR(target_.Commit(sequence_, result.outcome));
    OUTRIDER_RETURN_IF_ERROR(history_.Append({&next, 1}));
    ++times_.generated_tokens;
    if (const std::string text = reply.Take({&next, 1}).text; !text.empty()) sink(text);
  }
  if (!reply.finish()) sink(reply.Abandon());
  finish_ = reply.finish();
  times_.generation_seconds += SecondsSince(start);
  return status;
}

}  // namespace outrider
