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

// But for the last tokens: they are computed with the first pass, in whose run there is room for them.
// Where weights come from flash a run takes as long as those do, however few rows it has.
absl::Status TargetConversation::Read(std::span<const TokenId> tokens, Observer& observer) {
  const size_t left = LeftToFirstPass(tokens.size());
  const auto all = static_cast<uint32_t>(tokens.size());
  uint32_t read = 0;
  absl::Status status;
  {
    MutexLock lock(turn_);
    const PromptProgress progress = [&](uint32_t processed, uint32_t) {
      read = processed;
      observer.OnPromptProgress(processed, all);
      return !observer.Interrupted();
    };
    status = target_.Prefill(sequence_, tokens.first(tokens.size() - left), progress);
  }
  stats_.prompt_tokens += tokens.size();
  stats_.computed_tokens += read;
  OUTRIDER_RETURN_IF_ERROR(status);
  OUTRIDER_RETURN_IF_ERROR(history_.Append(tokens));
  unread_count_ = left;
  return absl::OkStatus();
}

// Of so many new tokens. None where there will be no pass, as the context is full. What was the root
// before them takes a row, too.
size_t TargetConversation::LeftToFirstPass(size_t token_count) const {
  if (history_.size() + token_count > context_length()) return 0;
  const uint32_t rows = target_.info().row_count_max;
  if (history_.size() == 0 && token_count <= rows) return token_count;
  return std::min<size_t>(token_count, rows - 1);
}

// There was no pass to read them with, or it failed.
void TargetConversation::ForgetUnread() {
  if (unread_count_ == 0) return;
  OUTRIDER_CHECK_OK(history_.Truncate(static_cast<uint32_t>(history_.size() - unread_count_)));
  unread_count_ = 0;
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
  ForgetUnread();
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
  Reading reading = {sequence_, history_.tokens().last(unread_count_)};
  PassResult result;
  target_.Run({&reading, size_t{unread_count_ > 0}}, {&pass, 1}, {&result, 1});
  OUTRIDER_RETURN_IF_ERROR(reading.status);
  stats_.computed_tokens += std::exchange(unread_count_, 0);
  OUTRIDER_RETURN_IF_ERROR(result.status);
  const TokenId next = result.outcome.next;
  OUTRIDER_RETURN_IF_ERROR(target_.Commit(sequence_, result.outcome));
  OUTRIDER_RETURN_IF_ERROR(history_.Append({&next, 1}));
  return next;
}

}  // namespace outrider
