// What is between a server and its callers on the wire: TLS, with their certificates too if it is
// asked for, or nothing, which is for this machine alone unless somebody insists.
//
// What changes while a server runs is served_certificates.h's.
//
// Errors: one sentence, which names the file: what cannot be read, is no certificate or key, do not
//         belong together, is not valid yet or any more.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace grpc {
class ServerCredentials;
}

namespace outrider {

struct TransportFlags {
  std::string certificate;  // a PEM file, with those that lead to a root; empty: no TLS
  std::string key;
  std::string client_ca;  // who vouches for callers; empty: they need no certificate
  bool insecure = false;  // without TLS on addresses that others reach
};

// What stands in the files of flags that ask for TLS.
struct TransportTexts {
  std::string certificate;
  std::string key;
  std::string client_ca;  // empty: there is none

  bool operator==(const TransportTexts&) const = default;
};

// That were checked: what cannot be used is an error.
absl::StatusOr<TransportTexts> ReadTransport(const TransportFlags& flags);

// Before anything listens at `address`.
absl::Status CheckTransport(const TransportFlags& flags, const std::string& address);

// Of flags that were checked.
std::shared_ptr<grpc::ServerCredentials> CredentialsFor(const TransportFlags& flags);

}  // namespace outrider
