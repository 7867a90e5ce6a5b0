// A verifier at the other end of a network: gRPC's bidirectional streams.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteVerifier> verifier,
//                             RemoteVerifier::Connect("verifier.example:7373"));
//
// A stream is one call of Verifier.Decode, and one object that gRPC calls back. gRPC tells each
// operation's end on threads of its own; those tell the listener and return.
//
// Threads: as Verifier says. Describe() waits.
// Errors:  Unavailable names the address. What a server refuses keeps its code and sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/verifier/link_security.h"
#include "client/verifier/verifier.h"
#include "common/base/mutex.h"

namespace outrider {

class RemoteVerifier final : public Verifier {
 public:
  // `address` is host:port. InvalidArgument when it is not, or nobody should be reached there that
  // way; whatever is wrong with files. Nothing is sent yet.
  static absl::StatusOr<std::unique_ptr<RemoteVerifier>> Connect(const std::string& address,
                                                                 const LinkSecurity& security = {});
  ~RemoteVerifier() override;  // waits until all streams are down, and listeners were told

  // What the server has. FailedPrecondition: something is there, but no verifier.
  absl::StatusOr<v1::DescribeResponse> Describe();

  void Open(uint64_t stream, Listener& listener) override;
  void Send(uint64_t stream, v1::ClientMessage& message) override;
  void Read(uint64_t stream) override;
  void Close(uint64_t stream) override;
  // A reply that is written at the server. `on_response` is called for every message of it, on this
  // thread, and says whether to go on; the error is what the server says, or the link.
  absl::Status Generate(const v1::GenerateRequest& request,
                        absl::FunctionRef<bool(const v1::GenerateResponse&)> on_response);

  RunForecast Forecast(const RunShape& shape) const override;

 private:
  struct Connection;  // keeps gRPC's headers out of this one
  class Stream;

  RemoteVerifier(std::string address, std::unique_ptr<Connection> connection);

  // With room for another stream, which is counted.
  Connection& ConnectionWithRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::shared_ptr<Stream> Find(uint64_t stream);
  std::shared_ptr<Stream> Forget(uint64_t stream);
  void NoteLeft();

  const std::string address_;
  Mutex mu_;
  // The first is always there; a server takes so many streams on one, and those above have others.
  std::vector<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);
  Connection& first_connection_;
  CondVar stream_left_;
  std::map<uint64_t, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);  // that are up
  size_t streams_there_ ABSL_GUARDED_BY(mu_) = 0;  // those, and what gRPC has not yet let go of
};

}  // namespace outrider
