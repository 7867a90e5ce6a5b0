#include "server/listener.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/network_address.h"
#include "common/base/status.h"
#include "grpc/support/log.h"
#include "grpcpp/grpcpp.h"
#include "server/call_watch.h"

namespace outrider {
namespace {

// Of a message at the most.
constexpr int kTokenBytes = 5;
// gRPC's own limit of pings is no limit: for every one too many it writes a GOAWAY, and keeps an
// error until all is written, which in a flood is never: 250 MB and more of them. The front door
// counts pings with all else that is no message.
constexpr int kPingStrikesUnlimited = 0;

int Milliseconds(Duration duration) {
  return static_cast<int>(
      std::min<int64_t>(INT_MAX, std::chrono::round<std::chrono::milliseconds>(duration).count()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Listen(
    const std::string& address, const Limits& limits, const TransportFlags& transport,
    DecodeService& service, ConnectionBook& book, EntranceLog& entrance) {
  OUTRIDER_ASSIGN_OR_RETURN(NetworkAddress where, NetworkAddress::Parse(address));
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  gpr_set_log_function([](gpr_log_func_args*) {});  // what matters is in the statuses
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<FrontDoor> door, FrontDoor::Listen(where));
  grpc::ServerBuilder builder;
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          CredentialsFor(transport));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(limits.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(limits.keepalive / 2));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // as often as it takes
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Milliseconds(limits.connection_idle_max));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kPingStrikesUnlimited);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Milliseconds(limits.handshake_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits.header_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits.streams_per_connection_max));
  const uint64_t message_bytes =
      limits.message_bytes + kTokenBytes * uint64_t{limits.context_length};
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<uint64_t>(message_bytes, INT_MAX)));
  grpc::ResourceQuota quota("outrider-server");
  quota.Resize(std::max(limits.transport_bytes, 4 * message_bytes));
  builder.SetResourceQuota(quota);
  std::unique_ptr<Listener> listener(new Listener(limits.first_message_max, book, entrance));
  listener->SetReady(false);
  builder.experimental().SetInterceptorCreators(listener->calls_->Creators());
  builder.RegisterService(&service.grpc());
  builder.RegisterService(&listener->health_.grpc());
  builder.RegisterService(&listener->reflection_.grpc());
  listener->server_ = builder.BuildAndStart();
  OUTRIDER_CHECK(listener->server_ != nullptr, "a server without ports of its own starts");
  where.port = door->port();
  listener->address_ = where.ToString();
  FrontDoor::Limits connections = limits.connections;
  connections.message_bytes = message_bytes;
  door->Open(
      connections,
      [acceptor](int descriptor) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = descriptor;
        acceptor->HandleNewConnection(&connection);
      },
      book, entrance);
  listener->door_ = std::move(door);
  return listener;
}

Listener::Listener(Duration first_message_max, const ConnectionBook& book, EntranceLog& entrance)
    : health_(book),
      reflection_(book),
      calls_(std::make_unique<CallWatch>(first_message_max, book, entrance)) {}

void Listener::SetReady(bool ready) {
  health_.Set("", ready);
  health_.Set("outrider.v1.Verifier", ready);
  health_.Set("live", true);
}

// gRPC takes nobody any more once it shuts down, and would forget to hang up on him.
Listener::~Listener() {
  door_.reset();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace outrider
