// One call of Generate: a stream of the driver's whose device is a Generation, and a writer of
// responses to whoever called.
//
//   the machine asks     NextUp() answers, or has nothing to say yet
//   the machine says     Hear() makes a response of it; Written() when that is written
//
// A caller who has gone closes the session: nobody could resume it.
//
// To open a session takes long, and is not done on the machine's thread, which schedules everybody:
// when the machine asks for the first message, one of gRPC's threads says it (Begin()).
//
// Threads: reactions come from gRPC's threads and the machine's; a mutex guards what they share. The
//          driver owns it from Open() on.
#pragma once

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/verification/generation.h"
#include "common/verification/verifier_driver.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "server/connection_book.h"

namespace outrider {

class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                           public VerifierDriver::Stream {
 public:
  // The driver outlives it.
  GenerateCall(VerifierDriver& driver, VerifierDriver::StreamNumber number,
               grpc::CallbackServerContext& context,
               std::shared_ptr<ConnectionBook::Entry> connection, Generation generation)
      : driver_(driver),
        number_(number),
        context_(context),
        connection_(std::move(connection)),
        generation_(std::move(generation)) {}

  // VerifierDriver::Stream
  void Read() override;
  void Send(const v1::ServerMessage& message) override;
  void End(const absl::Status& status, bool at_once) override;

 private:
  // grpc::ServerWriteReactor
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Begin();
  bool HasNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SayNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  VerifierDriver& driver_;
  const VerifierDriver::StreamNumber number_;
  grpc::CallbackServerContext& context_;
  const std::shared_ptr<ConnectionBook::Entry> connection_;

  Mutex mu_;
  Generation generation_ ABSL_GUARDED_BY(mu_);
  bool is_asked_ ABSL_GUARDED_BY(mu_) = false;  // for the next message
  bool has_left_ ABSL_GUARDED_BY(mu_) = false;  // the caller
  enum class Beginning { kAwaited, kUnderWay, kOver };
  Beginning beginning_ ABSL_GUARDED_BY(mu_) = Beginning::kAwaited;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;  // as far as gRPC is concerned
  v1::ClientMessage up_;                         // untouched until the next Read()
  grpc::Alarm alarm_;
};

}  // namespace outrider
