// The port that devices connect to. Beside the service it answers grpc.health.v1 and reflection:
//
//   service ""                       whether sessions are taken
//   service "outrider.v1.Verifier"   the same
//   service "live"                   SERVING as long as anything answers
//
// Whether the threads behind it do, only the operators' port tells (admin_port.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "server/decode_service.h"
#include "server/front_door.h"
#include "server/health_service.h"
#include "server/operations/entrance_log.h"
#include "server/reflection_service.h"
#include "server/security/transport_security.h"

namespace grpc {
class Server;
}

namespace outrider {

class CallWatch;

class Listener {
 public:
  // What callers may cost, whoever they are.
  struct Limits {
    uint32_t context_length;  // tokens that a message may have to hold
    uint32_t streams_per_connection_max;
    Duration handshake_max;         // until a connection can have calls
    Duration connection_idle_max;   // of a connection without a call
    Duration first_message_max;     // of a call, until it says something
    Duration keepalive;             // after which silence a connection is asked for a sign of life
    FrontDoor::Limits connections;  // its message_bytes is known here
    uint64_t header_bytes;          // of a call
    uint64_t message_bytes;         // of a message, besides those
    uint64_t transport_bytes;       // of all that is being read and written
  };

  // `address` is host:port; port 0 takes any free one. InvalidArgument when it is none, Unavailable
  // when it cannot be had. `transport` was checked. Service, book and log outlive the listener.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(
      const std::string& address, const Limits& limits, const TransportFlags& transport,
      DecodeService& service, ConnectionBook& book, EntranceLog& entrance);
  ~Listener();  // ends what is left of streams, and waits for that

  const std::string& address() const { return address_; }

  // What health checks are told; until it is said, no.
  void SetReady(bool ready);

 private:
  Listener(Duration first_message_max, const ConnectionBook& book, EntranceLog& entrance);

  HealthService health_;
  ReflectionService reflection_;
  const std::unique_ptr<CallWatch> calls_;
  std::unique_ptr<grpc::Server> server_;  // after what its calls use
  std::unique_ptr<FrontDoor> door_;       // closed first
  std::string address_;
};

}  // namespace outrider
