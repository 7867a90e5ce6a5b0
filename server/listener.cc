#include "server/listener.h"

#include <chrono>
#include <utility>

#include "common/base/network_address.h"
#include "common/base/status.h"
#include "grpc/support/log.h"
#include "grpcpp/grpcpp.h"

namespace outrider {
namespace {

// Of a prompt's tokens: five bytes each at the most.
constexpr int kMessageBytesMax = 16 << 20;
// A device that has gone without a word is noticed after both.
constexpr int kKeepaliveMs = 20000;
constexpr int kKeepaliveTimeoutMs = 10000;
constexpr int kPingIntervalMinMs = 5000;

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Listen(const std::string& address,
                                                           DecodeService& service) {
  OUTRIDER_ASSIGN_OR_RETURN(NetworkAddress where, NetworkAddress::Parse(address));
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  gpr_set_log_function([](gpr_log_func_args*) {});  // what matters is in the statuses
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two servers on a port share nothing
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMinMs);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.RegisterService(&service.grpc());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(Concat(
        "cannot listen on ", address,
        ": the port is in use or the host is not this machine's; choose another (--listen)"));
  }
  where.port = static_cast<uint16_t>(port);
  return std::unique_ptr<Listener>(new Listener(std::move(server), where.ToString()));
}

Listener::Listener(std::unique_ptr<grpc::Server> server, std::string address)
    : server_(std::move(server)), address_(std::move(address)) {}

Listener::~Listener() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace outrider
