// host:port, as flags have it: "127.0.0.1:7373", "verifier.example:443", "[::1]:80".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace outrider {

struct NetworkAddress {
  std::string host;  // a name, an IPv4 address, or an IPv6 address in brackets; not looked at
  uint16_t port = 0;

  std::string ToString() const;
  // Whether only programs of this machine reach it.
  bool is_loopback() const;

  // InvalidArgument when it is not a host and a port up to 65535.
  static absl::StatusOr<NetworkAddress> Parse(std::string_view text);
};

}  // namespace outrider
