#include "client/verifier/remote_verifier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/network_address.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/outrider/v1/verifier.grpc.pb.h"

namespace outrider {
namespace {

// Sessions come again by themselves, and sooner than a channel would.
constexpr int kReconnectMs = 100;
constexpr int kReconnectMaxMs = 1000;
// What making a connection may take, which over a far link are several round trips.
constexpr int kConnectMs = 10000;
// A link that has died without a word is noticed after both.
constexpr int kKeepaliveMs = 20000;
constexpr int kKeepaliveTimeoutMs = 10000;
// Servers take 128 on one, as many do, and let the next one wait without a word.
constexpr size_t kStreamsPerConnection = 100;
// Of a whole text's tokens, should a Resumed have to carry them.
constexpr int kMessageBytesMax = 16 << 20;
constexpr std::chrono::seconds kDescribeDeadline(5);

absl::Status FromGrpc(const grpc::Status& status, const std::string& address,
                      const LinkSecrets& secrets) {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return absl::UnavailableError(WhyUnreachable(address, secrets, status.error_message()));
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message().empty() ? "the verifier gives no reason"
                                                     : Printable(status.error_message()));
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsFor(const LinkSecrets& secrets) {
  if (!secrets.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = secrets.ca,
                               .pem_private_key = secrets.certificate_key,
                               .pem_cert_chain = secrets.certificate});
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);  // its other meaning
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else all channels are one connection
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  return arguments;
}

// Messages that the listener has, or is about to have, and has not answered with Read().
constexpr uint32_t kReadAhead = 8;

}  // namespace

struct RemoteVerifier::Connection {
  Connection(const std::string& address, LinkSecrets its_secrets)
      : secrets(std::move(its_secrets)),
        channel(grpc::CreateCustomChannel(address, CredentialsFor(secrets), Arguments())),
        stub(v1::Verifier::NewStub(channel)),
        authorization(secrets.key.empty() ? "" : Concat("Bearer ", secrets.key)) {}

  const LinkSecrets secrets;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Verifier::Stub> stub;
  const std::string authorization;  // empty: none
  size_t stream_count = 0;          // guarded by the verifier's mutex

  void Identify(grpc::ClientContext& context) const {
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
  }
};

// One call. gRPC keeps it until OnDone(), which comes when no operation is under way and nobody has
// a hold on it: one hold is the call's own, given up when there is nothing more to read, and one is
// that of whoever is about to start an operation.
//
// Of messages a few are read ahead of what is asked for: on a device whose cores are full each way from
// gRPC's threads to the session's and back takes its time, and there are some hints for each verdict.
class RemoteVerifier::Stream final
    : public grpc::ClientBidiReactor<v1::ClientMessage, v1::ServerMessage> {
 public:
  Stream(RemoteVerifier& verifier, Connection& connection, uint64_t number, Listener& listener)
      : verifier_(verifier), connection_(connection), number_(number), listener_(listener) {}

  Connection& connection() const { return connection_; }

  void Start() {
    connection_.Identify(context_);
    connection_.stub->async()->Decode(&context_, this);
    AddHold();
    ReadOn();
    StartCall();
  }

  void Send(v1::ClientMessage& message) {
    if (!Hold()) return;
    up_.Swap(&message);
    StartWrite(&up_);
    RemoveHold();
  }

  void Read() {
    {
      MutexLock lock(mu_);
      ++reads_left_;
    }
    ReadOn();
  }

  void Cancel() {
    if (!Hold()) return;
    context_.TryCancel();
    GiveUpOwnHold();
    RemoveHold();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return GiveUpOwnHold();
    listener_.OnMessage(number_, std::move(down_));
    {
      MutexLock lock(mu_);
      is_reading_ = false;
    }
    ReadOn();
  }

  void OnWriteDone(bool ok) override {
    if (ok) listener_.OnWritten(number_);
  }

  // Its number is free before the listener hears that it is down, and may open another by it. Its
  // context goes before the verifier may: with the last hold on a channel, given up on one of
  // gRPC's threads, gRPC would have that thread wait for its own end, and run on in freed memory.
  void OnDone(const grpc::Status& status) override {
    RemoteVerifier& verifier = verifier_;
    const absl::Status why =
        FromGrpc(status, verifier.address_, verifier.first_connection_.secrets);
    std::shared_ptr<Stream> self = verifier.Forget(number_);
    listener_.OnDown(number_, why);
    self.reset();
    verifier.NoteLeft();
  }

  void ReadOn() {
    {
      MutexLock lock(mu_);
      if (ended_ || is_reading_ || reads_left_ == 0) return;
      --reads_left_;
      is_reading_ = true;
      AddHold();
    }
    StartRead(&down_);
    RemoveHold();
  }

  // False: it has none of its own any more, and may be gone.
  bool Hold() {
    MutexLock lock(mu_);
    if (ended_) return false;
    AddHold();
    return true;
  }

  void GiveUpOwnHold() {
    {
      MutexLock lock(mu_);
      if (std::exchange(ended_, true)) return;
    }
    RemoveHold();
  }

  RemoteVerifier& verifier_;
  Connection& connection_;
  const uint64_t number_;
  Listener& listener_;
  grpc::ClientContext context_;
  v1::ClientMessage up_;    // untouched from StartWrite() to OnWriteDone()
  v1::ServerMessage down_;  // untouched from StartRead() to OnReadDone()
  Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool is_reading_ ABSL_GUARDED_BY(mu_) = false;
  uint32_t reads_left_ ABSL_GUARDED_BY(mu_) = kReadAhead;
};

absl::StatusOr<std::unique_ptr<RemoteVerifier>> RemoteVerifier::Connect(
    const std::string& address, const LinkSecurity& security) {
  OUTRIDER_RETURN_IF_ERROR(NetworkAddress::Parse(address).status());
  OUTRIDER_ASSIGN_OR_RETURN(LinkSecrets secrets, ReadSecrets(security, address));
  auto connection = std::make_unique<Connection>(address, std::move(secrets));
  return std::unique_ptr<RemoteVerifier>(new RemoteVerifier(address, std::move(connection)));
}

RemoteVerifier::RemoteVerifier(std::string address, std::unique_ptr<Connection> connection)
    : address_(std::move(address)), first_connection_(*connection) {
  connections_.push_back(std::move(connection));
}

RemoteVerifier::~RemoteVerifier() {
  MutexLock lock(mu_);
  while (streams_there_ > 0) stream_left_.Wait(mu_);
}

absl::StatusOr<v1::DescribeResponse> RemoteVerifier::Describe() {
  grpc::ClientContext context;
  first_connection_.Identify(context);
  context.set_deadline(std::chrono::system_clock::now() + kDescribeDeadline);
  v1::DescribeResponse response;
  const grpc::Status status = first_connection_.stub->Describe(&context, {}, &response);
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return response;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return FromGrpc(status, address_, first_connection_.secrets);
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::UnavailableError(Concat("cannot reach a verifier at ", address_,
                                           ": no answer in ", kDescribeDeadline.count(), " s"));
    default:
      return FailedPrecondition("what answers at ", address_,
                                " is no verifier: ", Printable(status.error_message()));
  }
}

absl::Status RemoteVerifier::Generate(
    const v1::GenerateRequest& request,
    absl::FunctionRef<bool(const v1::GenerateResponse&)> on_response) {
  grpc::ClientContext context;
  first_connection_.Identify(context);
  const auto reader = first_connection_.stub->Generate(&context, request);
  v1::GenerateResponse response;
  bool goes_on = true;
  while (goes_on && reader->Read(&response)) goes_on = on_response(response);
  if (!goes_on) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return goes_on ? FromGrpc(status, address_, first_connection_.secrets) : absl::OkStatus();
}

std::shared_ptr<RemoteVerifier::Stream> RemoteVerifier::Find(uint64_t stream) {
  MutexLock lock(mu_);
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second;
}

std::shared_ptr<RemoteVerifier::Stream> RemoteVerifier::Forget(uint64_t stream) {
  MutexLock lock(mu_);
  std::shared_ptr<Stream> forgotten = std::move(streams_.at(stream));
  streams_.erase(stream);
  --forgotten->connection().stream_count;
  return forgotten;
}

// The verifier may be gone when this has returned.
void RemoteVerifier::NoteLeft() {
  MutexLock lock(mu_);
  --streams_there_;
  stream_left_.NotifyAll();
}

RemoteVerifier::Connection& RemoteVerifier::ConnectionWithRoom() {
  const auto has_room = [](const auto& connection) {
    return connection->stream_count < kStreamsPerConnection;
  };
  auto found = std::ranges::find_if(connections_, has_room);
  if (found == connections_.end()) {
    found = connections_.insert(found,
                                std::make_unique<Connection>(address_, first_connection_.secrets));
  }
  ++(*found)->stream_count;
  return **found;
}

void RemoteVerifier::Open(uint64_t stream, Listener& listener) {
  std::shared_ptr<Stream> opened;
  {
    MutexLock lock(mu_);
    opened = std::make_shared<Stream>(*this, ConnectionWithRoom(), stream, listener);
    streams_.emplace(stream, opened);
    ++streams_there_;
  }
  opened->Start();
}

void RemoteVerifier::Send(uint64_t stream, v1::ClientMessage& message) {
  if (const auto found = Find(stream)) found->Send(message);
}

void RemoteVerifier::Read(uint64_t stream) {
  if (const auto found = Find(stream)) found->Read();
}

void RemoteVerifier::Close(uint64_t stream) {
  if (const auto found = Find(stream)) found->Cancel();
}

RunForecast RemoteVerifier::Forecast(const RunShape& shape) const {
  return ForecastOf(shape);
}

}  // namespace outrider
