// The committed tokens of a session, and how the verifier comes to have the same.
#include <algorithm>
#include <utility>

#include "client/session/session.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

// --- what one side has committed and the other has not ---

// Both have the first `shared` tokens; after them the verifier has `tokens`, and then `hash`.
absl::Status Session::CatchUp(size_t shared, std::span<const TokenId> tokens, v1::Finish finish,
                              std::optional<uint64_t> hash) {
  const absl::Status drifted =
      absl::DataLossError("the verifier has committed other tokens than those here");
  const auto ours = committed().subspan(shared);
  const auto agree = static_cast<size_t>(std::ranges::mismatch(ours, tokens).in1 - ours.begin());
  const size_t server_length = shared + tokens.size();
  if (agree < ours.size()) {
    if (agree < tokens.size() || finish != v1::FINISH_NONE) return drifted;
    if (hash && *hash != transcript_->history().HashAt(server_length)) return drifted;
    SendMissing(server_length);
    return absl::OkStatus();
  }
  const auto missed = tokens.subspan(agree);
  if (!transcript_->Fits(missed) || (hash && transcript_->HashAfter(missed) != *hash)) {
    return drifted;
  }
  if (missed.empty() && finish == v1::FINISH_NONE) return absl::OkStatus();
  link_.Progressed(now_);
  stats_.tokens += missed.size();
  MoveRoot(missed);
  CommitReply(missed, finish);
  return absl::OkStatus();
}

// Of the verifier's tokens, from before edits that it has not seen, the first `common` are ours.
void Session::TellEdits(size_t common) {
  // So that an Append begins the reply.
  common = std::min(common, transcript_->history().reply_begin() - 1);
  // Even if there is nothing to cut yet: a target that does not wait may be writing on.
  SendTruncate(common);
  SendMissing(common);
}

void Session::SendMissing(size_t server_length) {
  const size_t reply_begin = transcript_->history().reply_begin();
  if (server_length < reply_begin) SendAppend(server_length, reply_begin, /*reply=*/false);
  const size_t written = std::max(server_length, reply_begin);
  if (written < size()) SendAppend(written, size(), /*reply=*/true);
}

// --- edits ---

void Session::SendAppend(size_t begin, size_t end, bool reply) {
  v1::Append& append = outbox_.AddAppend();
  const auto tokens = committed().subspan(begin, end - begin);
  append.mutable_tokens()->Add(tokens.begin(), tokens.end());
  append.set_length(static_cast<uint32_t>(begin));
  append.set_reply(reply);
  if (!reply) WriteStops(*append.mutable_stops());
  CountEdit(begin);
}

void Session::SendTruncate(size_t length) {
  outbox_.AddTruncate().set_length(static_cast<uint32_t>(length));
  CountEdit(length);
}

// The tokens were cut to `length`, which the verifier is told now or when it can be.
void Session::Edited(size_t length) {
  if (link_.attached()) {
    SendTruncate(length);
  } else {
    CountEdit(length);
  }
}

// An edit begins an epoch.
void Session::CountEdit(size_t length) {
  ++edits_;
  edited_from_ = std::min(edited_from_.value_or(length), length);
  outbox_.DropGrowth();
  ForgetSent();
}

void Session::ForgetSent() {
  wire_ids_.Clear();
  times_.Restart();
  hint_.reset();
}

// --- turns and replies ---

absl::Status Session::CheckTurn(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return InvalidArgument("a turn has no tokens");
  if (tokens.size() + size() > length_max_) {
    return ResourceExhausted("a turn of ", tokens.size(), " tokens after ", size(),
                             " does not fit into a context of ", length_max_,
                             "; begin anew, or ask for a longer context");
  }
  if (!transcript_->Fits(tokens)) {
    return InvalidArgument("a turn has tokens outside the vocabulary");
  }
  return absl::OkStatus();
}

void Session::BeginReply() {
  transcript_->BeginReply(continues_text_);
  times_.Restart();
  sketcher_->Restart(0);
}

// The reply ends by the user's wish, and `length` tokens remain.
void Session::EndReply(size_t length) {
  std::string withheld = transcript_->EndReply();
  if (length == size()) ShowRest(std::move(withheld));
  transcript_->Truncate(length);
  Edited(length);
}

void Session::CommitReply(std::span<const TokenId> tokens, v1::Finish finish) {
  Transcript::Shown shown = transcript_->Take(tokens, finish);
  Act(Commit{committed().last(shown.taken), std::move(shown.text), shown.finish});
  if (shown.ended_here) Edited(size());
}

void Session::ShowRest(std::string text) {
  if (!text.empty()) Act(Commit{{}, std::move(text), v1::FINISH_NONE});
}

// Down these tokens, of which no verdict has told: as the fewest verdicts that could have.
void Session::MoveRoot(std::span<const TokenId> tokens) {
  const Sketch& sketch = sketcher_->sketch();
  while (!tokens.empty()) {
    NodeId leaf = Sketch::kRoot;
    size_t depth = 0;
    while (depth + 1 < tokens.size()) {
      const Sketch::Node* const child = sketch.Child(leaf, tokens[depth]);
      if (child == nullptr) break;
      leaf = child->id;
      ++depth;
    }
    committed_.clear();
    sketcher_->Decided(leaf, tokens[depth], now_, committed_);
    tokens = tokens.subspan(depth + 1);
  }
  wire_ids_.Retain(sketch);
}

}  // namespace outrider
