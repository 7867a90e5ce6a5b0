// grpc.health.v1 for probes: what Check answers at once, and Watch whenever it changes.
//
//   HealthService health(book);
//   builder.RegisterService(&health.grpc());
//   health.Set("outrider.v1.Verifier", true);
//
// gRPC has one of its own, of whose calls nobody hears before they have said which service they ask
// for (streamed_service.h).
//
// Memory:  a name for each service, a pointer for each Watch. How many there may be of those, somebody
//          else says (side_streams.h).
// Threads: any.
// Errors:  NotFound to who asks for a service that there is not; Watch is told SERVICE_UNKNOWN.
#pragma once

#include <memory>
#include <string>

#include "server/connection_book.h"

namespace grpc {
class Service;
}

namespace outrider {

class HealthService {
 public:
  // The book outlives it, and it outlives the server.
  explicit HealthService(const ConnectionBook& book);
  ~HealthService();

  // A service that nobody has set is unknown; to who watches it then it remains so.
  void Set(const std::string& service, bool serving);

  grpc::Service& grpc();

 private:
  class Implementation;  // keeps gRPC's headers out of this one

  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace outrider
