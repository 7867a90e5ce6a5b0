#include "server/generate_call.h"

#include <optional>
#include <string>
#include <utility>

namespace outrider {

// --- the machine's thread ---

void GenerateCall::Read() {
  MutexLock lock(mu_);
  is_asked_ = true;
  SayNext();
}

// One without a response has been taken in at once. What comes while it drafts, for all that the
// target waits, is the end.
void GenerateCall::Send(const v1::ServerMessage& message) {
  MutexLock lock(mu_);
  if (drafts_) return driver_.Written(number_);
  const bool has_response = generation_->Hear(message);
  DraftIfWanted();
  SayNext();
  if (has_response && !has_left_) {
    StartWrite(&generation_->response());
  } else {
    driver_.Written(number_);
  }
}

void GenerateCall::End(const absl::Status& status, bool /*at_once*/) {
  Finish({static_cast<grpc::StatusCode>(status.code()), std::string(status.message())});
}

void GenerateCall::SayNext() {
  if (!is_asked_ || drafts_) return;
  std::optional<v1::ClientMessage> next = generation_->NextUp();
  if (!next) return;
  is_asked_ = false;
  up_ = *std::move(next);
  driver_.Received(number_, up_);
}

// --- drafts ---

void GenerateCall::DraftIfWanted() {
  if (!generation_->wants_draft() || has_left_) return;
  drafts_ = true;
  drafting_.Do([this] { Draft(); });
}

// The generation is its own meanwhile: the target waits for what is grown here, and so nothing
// comes from there. Whoever drops out meanwhile is let go when it is done.
void GenerateCall::Draft() {
  generation_->Draft();
  {
    MutexLock lock(mu_);
    drafts_ = false;
    if (has_left_) generation_->Close();
    if (!is_done_) return SayNext();
  }
  driver_.Ended(number_);
}

// --- gRPC's threads ---

// One that fails is told of by OnCancel(), too.
void GenerateCall::OnWriteDone(bool /*ok*/) {
  driver_.Written(number_);
}

void GenerateCall::OnCancel() {
  MutexLock lock(mu_);
  has_left_ = true;
  if (drafts_) return;
  generation_->Close();
  SayNext();
}

// Nothing of it is touched once its end has been told.
void GenerateCall::OnDone() {
  {
    MutexLock lock(mu_);
    is_done_ = true;
    if (drafts_) return;
  }
  driver_.Ended(number_);
}

}  // namespace outrider
