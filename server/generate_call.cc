#include "server/generate_call.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace outrider {

// --- the machine's thread ---

void GenerateCall::Read() {
  MutexLock lock(mu_);
  is_asked_ = true;
  if (beginning_ != Beginning::kAwaited) return SayNext();
  beginning_ = Beginning::kUnderWay;
  alarm_.Set(std::chrono::system_clock::now(), [this](bool /*on_time*/) { Begin(); });
}

// One without a response has been taken in at once. A response stays as it is until it is written:
// nothing else is said meanwhile.
void GenerateCall::Send(const v1::ServerMessage& message) {
  MutexLock lock(mu_);
  const bool has_response = generation_.Hear(message);
  SayNext();
  if (has_response && !has_left_) {
    StartWrite(&generation_.response());
  } else {
    driver_.Written(number_);
  }
}

void GenerateCall::End(const absl::Status& status, bool at_once) {
  connection_->End(status);
  if (at_once) context_.TryCancel();  // else a reader that has stalled would hold it up
  Finish({static_cast<grpc::StatusCode>(status.code()), std::string(status.message())});
}

// Whether up_ is to be said.
bool GenerateCall::HasNext() {
  if (!is_asked_) return false;
  std::optional<v1::ClientMessage> next = generation_.NextUp();
  if (!next) return false;
  is_asked_ = false;
  up_ = *std::move(next);
  return true;
}

// While it begins, what is next is said when that is over.
void GenerateCall::SayNext() {
  if (beginning_ == Beginning::kOver && HasNext()) driver_.Received(number_, up_);
}

// --- gRPC's threads ---

// Without the mutex, which the machine's thread may want meanwhile.
void GenerateCall::Begin() {
  bool has_next = false;
  {
    MutexLock lock(mu_);
    has_next = HasNext();
  }
  if (has_next) driver_.Received(number_, up_);
  bool has_ended = false;
  {
    MutexLock lock(mu_);
    beginning_ = Beginning::kOver;
    has_ended = has_ended_;
    if (!has_ended) SayNext();
  }
  if (has_ended) driver_.Ended(number_);
}

// One that fails is told of by OnCancel(), too.
void GenerateCall::OnWriteDone(bool /*ok*/) {
  connection_->ExplainMessage(0);
  driver_.Written(number_);
}

void GenerateCall::OnCancel() {
  MutexLock lock(mu_);
  has_left_ = true;
  generation_.Close();
  SayNext();
}

// Nothing of it is touched once its end has been told.
void GenerateCall::OnDone() {
  {
    MutexLock lock(mu_);
    has_ended_ = true;
    if (beginning_ == Beginning::kUnderWay) return;  // which tells of it then
  }
  driver_.Ended(number_);
}

}  // namespace outrider
