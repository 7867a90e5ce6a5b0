#include "client/device/target_conversation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<TargetConversation>> TargetConversation::Create(
    Target& target, Mutex& turn, Chooser chooser, StopConditions stops) {
  MutexLock lock(turn);
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, target.CreateSequence());
  return std::unique_ptr<TargetConversation>(
      new TargetConversation(target, turn, std::move(chooser), std::move(stops), sequence));
}

TargetConversation::TargetConversation(Target& target, Mutex& turn, Chooser chooser,
                                       StopConditions stops, SequenceId sequence)
    : target_(target),
      turn_(turn),
      chooser_(std::move(chooser)),
      stops_(std::move(stops)),
      sequence_(sequence),
      history_({.vocabulary_size = static_cast<int32_t>(target.info().vocabulary_size),
                .capacity = size_t{target.info().context_length} + 1,
                .counts_tokens = chooser_.options().penalizes()}) {}

TargetConversation::~TargetConversation() {
  MutexLock lock(turn_);
  OUTRIDER_CHECK_OK(target_.Close(sequence_));
}

absl::StatusOr<Ending> TargetConversation::Continue(std::span<const TokenId> tokens, bool is_reply,
                                                    Observer& observer) {
  if (tokens.size() > context_length()) {
    return InvalidArgument("a text of ", tokens.size(), " tokens does not fit into a context of ",
                           context_length(), "; shorten it");
  }
  const auto [differs, unused] = std::ranges::mismatch(tokens, history_.tokens());
  const auto shared = static_cast<uint32_t>(differs - tokens.begin());
  OUTRIDER_RETURN_IF_ERROR(Forget(shared));
  ReplyTimes times;
  const absl::Status status = Read(tokens.subspan(shared), observer);
  absl::StatusOr<Ending> ending = Ending::kInterrupted;
  if (status.ok()) {
    history_.StartReply();
    ending = Write(is_reply, times, observer);
  } else if (!absl::IsCancelled(status)) {
    ending = status;
  }
  times.AddTo(stats_);
  SetTokens(history_.tokens());
  return ending;
}

absl::Status TargetConversation::Forget(uint32_t length) {
  MutexLock lock(turn_);
  OUTRIDER_RETURN_IF_ERROR(target_.Truncate(sequence_, length).status());
  return history_.Truncate(length);
}

absl::Status TargetConversation::Read(std::span<const TokenId> tokens, Observer& observer) {
  uint32_t read = 0;
  absl::Status status;
  {
    MutexLock lock(turn_);
    status = target_.Prefill(sequence_, tokens, [&](uint32_t processed, uint32_t total) {
      read = processed;
      observer.OnPromptProgress(processed, total);
      return !observer.Interrupted();
    });
  }
  stats_.prompt_tokens += tokens.size();
  stats_.computed_tokens += read;
  OUTRIDER_RETURN_IF_ERROR(status);
  return history_.Append(tokens);
}

absl::StatusOr<Ending> TargetConversation::Write(bool is_reply, ReplyTimes& times,
                                                 Observer& observer) {
  Reply reply(stops_, is_reply ? std::span<const TokenId>() : history_.tokens());
  absl::Status status;
  while (!reply.finish() && !history_is_full() && !observer.Interrupted()) {
    const absl::StatusOr<TokenId> next = Next();
    status = next.status();
    if (!status.ok()) break;
    times.Came(1);
    observer.OnTokens({&*next, 1});
    if (const std::string text = reply.Take({&*next, 1}).text; !text.empty()) observer.OnText(text);
  }
  if (!reply.finish()) {
    if (const std::string withheld = reply.Abandon(); !withheld.empty()) observer.OnText(withheld);
  }
  OUTRIDER_RETURN_IF_ERROR(status);
  if (reply.finish()) return Ending::kComplete;
  return history_is_full() ? Ending::kContextFull : Ending::kInterrupted;
}

absl::StatusOr<TokenId> TargetConversation::Next() {
  MutexLock lock(turn_);
  const Pass pass = {sequence_, {}, &chooser_, &history_};
  PassResult result;
  target_.Run({}, {&pass, 1}, {&result, 1});
  OUTRIDER_RETURN_IF_ERROR(result.status);
  const TokenId next = result.outcome.next;
  OUTRIDER_RETURN_IF_ERROR(target_.Commit(sequence_, result.outcome));
  OUTRIDER_RETURN_IF_ERROR(history_.Append({&next, 1}));
  return next;
}

}  // namespace outrider
