#include "common/base/network_address.h"

#include <charconv>

#include "common/base/status.h"

namespace outrider {

std::string NetworkAddress::ToString() const {
  return Concat(host, ":", port);
}

absl::StatusOr<NetworkAddress> NetworkAddress::Parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && colon > 0) {
    NetworkAddress address = {std::string(text.substr(0, colon))};
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error == std::errc() && read == end) return address;
  }
  return InvalidArgument("\"", text, "\" is no address; give host:port, the port up to 65535");
}

bool NetworkAddress::is_loopback() const {
  const bool is_ipv4 = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "[::1]" || (is_ipv4 && host.starts_with("127."));
}

}  // namespace outrider
