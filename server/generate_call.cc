#include "server/generate_call.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/random_bits.h"
#include "server/streamed_service.h"

namespace outrider {

// --- the machine's thread ---

void GenerateCall::Read() {
  MutexLock lock(mu_);
  is_asked_ = true;
  if (!generation_) return StartRead(&request_);
  SayNext();
}

// One without a response has been taken in at once. A response stays as it is until it is written:
// nothing else is said meanwhile. There is no generation yet where the caller was too late with what
// he wants; then the stream's end has the same words.
void GenerateCall::Send(const v1::ServerMessage& message) {
  MutexLock lock(mu_);
  const bool has_response = generation_ && generation_->Hear(message);
  SayNext();
  if (has_response && !has_left_) {
    StartWrite(&generation_->response());
  } else {
    driver_.Written(number_);
  }
}

void GenerateCall::End(const absl::Status& status, bool at_once) {
  absl::Status why = status;
  {
    MutexLock lock(mu_);
    if (!refused_.ok()) why = refused_;
  }
  connection_->End(why);
  if (at_once) context_.TryCancel();  // else a reader that has stalled would hold it up
  Finish({static_cast<grpc::StatusCode>(why.code()), std::string(why.message())});
}

// Whether up_ is to be said.
bool GenerateCall::HasNext() {
  if (!is_asked_ || !generation_) return false;
  std::optional<v1::ClientMessage> next = generation_->NextUp();
  if (!next) return false;
  is_asked_ = false;
  up_ = *std::move(next);
  return true;
}

void GenerateCall::SayNext() {
  if (HasNext()) driver_.Received(number_, up_);
}

// --- gRPC's threads ---

void GenerateCall::OnReadDone(bool ok) {
  if (!ok) {  // reset as soon as it was made, or no message of ours
    return Refuse(absl::InvalidArgumentError(NoMessage<v1::GenerateRequest>()));
  }
  v1::GenerateRequest request;
  request.Swap(&request_);  // which is long, and is not kept
  connection_->ExplainMessage(request.ByteSizeLong());
  auto generation = Generation::Create(request, RandomBits(), drafts_);
  if (!generation.ok()) return Refuse(generation.status());
  Begin(*std::move(generation));
}

void GenerateCall::Refuse(const absl::Status& why) {
  {
    MutexLock lock(mu_);
    refused_ = why;
  }
  driver_.Broken(number_);
}

// Without the mutex, which the machine's thread may want while the session is prepared.
void GenerateCall::Begin(Generation generation) {
  {
    MutexLock lock(mu_);
    generation_.emplace(std::move(generation));
    if (has_left_) generation_->Close();
    if (!HasNext()) return;
  }
  driver_.Received(number_, up_);
}

// One that fails is told of by OnCancel(), too.
void GenerateCall::OnWriteDone(bool /*ok*/) {
  connection_->ExplainMessage(0);
  driver_.Written(number_);
}

// A read that is under way fails, too.
void GenerateCall::OnCancel() {
  MutexLock lock(mu_);
  has_left_ = true;
  if (!generation_) return;
  generation_->Close();
  SayNext();
}

}  // namespace outrider
