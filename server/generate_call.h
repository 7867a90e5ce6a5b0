// One call of Generate: a stream of the driver's whose device is a Generation, and a writer of
// responses to whoever called.
//
//   the machine asks     the first time what is wanted is read, and opens the session; later
//                        NextUp() answers, or has nothing to say yet
//   the machine says     Hear() makes a response of it; Written() when that is written
//
// A caller who has gone closes the session: nobody could resume it. To open one takes long, and is
// done by one of gRPC's threads, not by the machine's, which schedules everybody.
//
// Threads: reactions come from gRPC's threads and the machine's; a mutex guards what they share. The
//          driver owns it from Open() on.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/verification/generation.h"
#include "common/verification/verifier_driver.h"
#include "grpcpp/grpcpp.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "server/connection_book.h"

namespace outrider {

class GenerateCall final
    : public grpc::ServerBidiReactor<v1::GenerateRequest, v1::GenerateResponse>,
      public VerifierDriver::Stream {
 public:
  // The driver outlives it. `drafts`: there is a draft here.
  GenerateCall(VerifierDriver& driver, VerifierDriver::StreamNumber number,
               grpc::CallbackServerContext& context,
               std::shared_ptr<ConnectionBook::Entry> connection, bool drafts)
      : driver_(driver),
        number_(number),
        context_(context),
        connection_(std::move(connection)),
        drafts_(drafts) {}

  // VerifierDriver::Stream
  void Read() override;
  void Send(const v1::ServerMessage& message) override;
  void End(const absl::Status& status, bool at_once) override;

 private:
  // grpc::ServerBidiReactor
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { driver_.Ended(number_); }

  void Refuse(const absl::Status& why);
  void Begin(Generation generation);
  bool HasNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SayNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  VerifierDriver& driver_;
  const VerifierDriver::StreamNumber number_;
  grpc::CallbackServerContext& context_;
  const std::shared_ptr<ConnectionBook::Entry> connection_;
  const bool drafts_;
  v1::GenerateRequest request_;  // untouched from the first Read() to OnReadDone()

  Mutex mu_;
  std::optional<Generation> generation_ ABSL_GUARDED_BY(mu_);  // from when the request was read
  absl::Status refused_ ABSL_GUARDED_BY(mu_);
  bool is_asked_ ABSL_GUARDED_BY(mu_) = false;  // for the next message
  bool has_left_ ABSL_GUARDED_BY(mu_) = false;  // the caller
  v1::ClientMessage up_;                        // untouched until the next Read()
};

}  // namespace outrider
