// What is between a device and its server on the wire, and by what the server knows the device.
//
// Errors: one sentence, which names the file or the flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace outrider {

struct LinkSecurity {
  bool tls = false;     // by the roots that this machine trusts; one of the files says so too
  std::string ca = {};  // a PEM file: who vouches for the server, and nobody else
  std::string certificate = {};  // a PEM file: the device's own, where the server asks for one
  std::string certificate_key = {};
  std::string key = {};       // what the server knows the device by; empty: nothing
  std::string key_file = {};  // where that stands, in place of `key`
  bool insecure = false;      // without TLS to an address that is not this machine's
  // Messages have a multiple of this, both ways (verification/wire_padding.h); 0: as they come.
  uint32_t frame_bytes = 0;

  bool has_tls() const { return tls || !ca.empty() || !certificate.empty(); }
};

// As above, with what is in the files in place of their names.
struct LinkSecrets {
  bool tls = false;
  std::string ca;
  std::string certificate;
  std::string certificate_key;
  std::string key;
};

// For a link to `address`.
absl::StatusOr<LinkSecrets> ReadSecrets(const LinkSecurity& security, const std::string& address);

// Why no connection to `address` came to be, in a sentence with what to do about it. `reason` is what
// the transport says: its words for what TLS refuses are known here, all others are passed on, made
// printable.
std::string WhyUnreachable(const std::string& address, const LinkSecrets& secrets,
                           std::string_view reason);

}  // namespace outrider
