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

std::string NetworkOf(in6_addr address) {
  std::fill(address.s6_addr + kNetworkBytes, address.s6_addr + sizeof(address.s6_addr), 0);
  char text[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &address, text, sizeof(text));
  return std::string("ipv6:") + text;
}

std::string Ipv4Origin(const void* address) {
  char text[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, address, text, sizeof(text));
  return std::string("ipv4:") + text;
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
  return NetworkOf(bytes);
}

// A socket that hears of both has IPv4 addresses as the last bytes of others.
std::string OriginOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    return Ipv4Origin(&reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  }
  if (peer.ss_family != AF_INET6) return "";
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  constexpr size_t kMappedAt = 12;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return Ipv4Origin(address.s6_addr + kMappedAt);
  return NetworkOf(address);
}

}  // namespace outrider
