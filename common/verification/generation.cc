#include "common/verification/generation.h"

#include <utility>

#include "common/base/status.h"
#include "common/verification/machine/draft_here.h"
#include "common/verification/wire_padding.h"

namespace outrider {

absl::StatusOr<Generation> Generation::Create(const v1::GenerateRequest& request, uint64_t nonce,
                                              bool drafts) {
  if (request.draft() && !drafts) {
    return FailedPrecondition(
        "this server has no draft; ask for its target alone, or start it with --draft");
  }
  OUTRIDER_RETURN_IF_ERROR(CheckFrameBytes(request.open().frame_bytes()));
  OUTRIDER_RETURN_IF_ERROR(CheckPadding(request.padding().size()));
  v1::Open open = request.open();
  open.set_nonce(nonce);
  open.set_attempt(1);
  open.set_hints(false);
  open.set_pass_nodes(DraftHere::kChain);
  open.set_draft(request.draft());
  open.set_dry_policy(v1::DRY_POLICY_ALONE);
  open.clear_frame_bytes();
  return Generation(std::move(open), request.open().frame_bytes());
}

std::optional<v1::ClientMessage> Generation::NextUp() {
  if (said_ == Said::kNothing) {
    said_ = Said::kOpen;
    return std::move(first_);
  }
  if (said_ == Said::kClose) return std::nullopt;
  v1::ClientMessage message;
  if (closing_) {
    said_ = Said::kClose;
    message.mutable_close();
    return message;
  }
  if (verdicts_told_ == verdicts_heard_) return std::nullopt;
  verdicts_told_ = verdicts_heard_;
  message.mutable_grow()->set_seen(verdicts_told_);
  return message;
}

bool Generation::Hear(const v1::ServerMessage& message) {
  response_.Clear();
  const bool has_response = Answer(message);
  if (has_response) PadTo(frame_bytes_, response_);
  return has_response;
}

bool Generation::Answer(const v1::ServerMessage& message) {
  switch (message.kind_case()) {
    case v1::ServerMessage::kOpened:
      SetFinish(message.opened().finish());
      return message.opened().finish() != v1::FINISH_NONE;
    case v1::ServerMessage::kProgress:
      *response_.mutable_progress() = message.progress();
      return true;
    case v1::ServerMessage::kVerdict:
      HearVerdict(message.verdict());
      return true;
    default:
      return false;  // a fault: the stream ends with the same words
  }
}

// Nothing was grown from outside, so whatever was committed before `next` is told in `path`.
void Generation::HearVerdict(const v1::Verdict& verdict) {
  ++verdicts_heard_;
  *response_.mutable_tokens() = verdict.path();
  response_.add_tokens(verdict.next());
  response_.set_nodes(verdict.nodes());
  response_.set_pass_us(verdict.pass_us());
  SetFinish(verdict.finish());
}

void Generation::SetFinish(v1::Finish finish) {
  response_.set_finish(finish);
  closing_ = closing_ || finish != v1::FINISH_NONE;
}

}  // namespace outrider
