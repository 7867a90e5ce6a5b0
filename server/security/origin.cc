#include "server/security/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>

namespace outrider {
namespace {

constexpr size_t kNetworkBytes = 8;

// The address between the brackets, which gRPC writes as in a URI.
std::string_view BetweenBrackets(std::string_view text) {
  for (const std::string_view bracket : {"%5B", "["}) {
    if (text.starts_with(bracket)) text.remove_prefix(bracket.size());
  }
  const size_t end = std::min(text.find("%5D"), text.find(']'));
  return text.substr(0, end);
}

}  // namespace

std::string OriginOf(std::string_view peer) {
  const size_t colon = peer.rfind(':');
  if (peer.starts_with("ipv4:") && colon > 4) return std::string(peer.substr(0, colon));
  if (!peer.starts_with("ipv6:")) return std::string(peer);
  std::string address(BetweenBrackets(peer.substr(5)));
  address.resize(std::min(address.find('%'), address.size()));  // the scope
  in6_addr bytes{};
  if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1) return std::string(peer);
  std::fill(bytes.s6_addr + kNetworkBytes, bytes.s6_addr + sizeof(bytes.s6_addr), 0);
  char text[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &bytes, text, sizeof(text));
  return std::string("ipv6:") + text;
}

}  // namespace outrider
