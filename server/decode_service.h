// The service of proto/outrider/v1 over gRPC's callback interface.
//
//   DecodeService service(driver, description);
//   builder.RegisterService(service.grpc());
//
// Nothing here decides anything. A stream's reactions tell the driver and return; what the driver
// asks of a stream starts an operation and returns.
#pragma once

#include <memory>

#include "common/verification/verifier_driver.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "server/connection_book.h"
#include "server/operations/entrance_log.h"
#include "server/security/gatekeeper.h"

namespace grpc {
class Service;
}

namespace outrider {

class DecodeService {
 public:
  // `description` answers every Describe. The others outlive it.
  DecodeService(VerifierDriver& driver, v1::DescribeResponse description, const Gatekeeper& gate,
                const ConnectionBook& book, EntranceLog& entrance);
  ~DecodeService();

  grpc::Service& grpc();

 private:
  class Implementation;  // keeps gRPC's headers out of this one

  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace outrider
