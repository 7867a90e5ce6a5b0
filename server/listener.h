// The port that devices connect to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/decode_service.h"
#include "server/security/transport_security.h"

namespace grpc {
class Server;
}

namespace outrider {

class Listener {
 public:
  // What callers may cost, whoever they are.
  struct Limits {
    uint32_t context_length;  // tokens that a message may have to hold
    uint32_t stream_count_max;
  };

  // `address` is host:port; port 0 takes any free one. InvalidArgument when it is none, Unavailable
  // when it cannot be had. `transport` was checked. The service outlives the listener.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                          const Limits& limits,
                                                          const TransportFlags& transport,
                                                          DecodeService& service);
  ~Listener();  // ends what is left of streams, and waits for that

  const std::string& address() const { return address_; }

 private:
  Listener(std::unique_ptr<grpc::Server> server, std::string address);

  const std::unique_ptr<grpc::Server> server_;
  const std::string address_;
};

}  // namespace outrider
