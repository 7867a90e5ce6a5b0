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

void GenerateCall::SayNext() {
  if (!is_asked_) return;
  std::optional<v1::ClientMessage> next = generation_.NextUp();
  if (!next) return;
  is_asked_ = false;
  up_ = *std::move(next);
  driver_.Received(number_, up_);
}

// --- gRPC's threads ---

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
  driver_.Ended(number_);
}

}  // namespace outrider
