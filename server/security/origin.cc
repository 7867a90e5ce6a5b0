#include "server/security/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>

namespace outrider {
namespace {

constexpr size_t kNetworkBytes = 8;
constexpr size_t kMappedAt = 12;  // of an IPv4 address in an IPv6 one

// The address between the brackets, which gRPC writes as in a URI.
std::string_view BetweenBrackets(std::string_view text) {
  for (const std::string_view bracket : {"%5B", "["}) {
    if (text.starts_with(bracket)) text.remove_prefix(bracket.size());
  }
  const size_t end = std::min(text.find("%5D"), text.find(']'));
  return text.substr(0, end);
}

std::string TextOf(int family, const void* address) {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(family, address, text, sizeof(text));
  return text;
}

std::string NetworkOf(in6_addr address) {
  std::fill(address.s6_addr + kNetworkBytes, address.s6_addr + sizeof(address.s6_addr), 0);
  return "ipv6:" + TextOf(AF_INET6, &address);
}

std::string Ipv4Origin(const void* address) {
  return "ipv4:" + TextOf(AF_INET, address);
}

// False: it is none. The scope of a link-local one is left out.
bool ParseIpv6(std::string_view peer, in6_addr& bytes) {
  std::string address(BetweenBrackets(peer.substr(std::string_view("ipv6:").size())));
  address.resize(std::min(address.find('%'), address.size()));
  return inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

}  // namespace

std::string OriginOf(std::string_view peer) {
  const size_t colon = peer.rfind(':');
  if (peer.starts_with("ipv4:") && colon > 4) return std::string(peer.substr(0, colon));
  if (!peer.starts_with("ipv6:")) return std::string(peer);
  in6_addr bytes{};
  return ParseIpv6(peer, bytes) ? NetworkOf(bytes) : std::string(peer);
}

// A socket that hears of both has IPv4 addresses as the last bytes of others.
std::string OriginOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    return Ipv4Origin(&reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  }
  if (peer.ss_family != AF_INET6) return "";
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return Ipv4Origin(address.s6_addr + kMappedAt);
  return NetworkOf(address);
}

std::string PeerOf(std::string_view peer) {
  const size_t colon = peer.rfind(':');
  if (peer.starts_with("ipv4:") && colon > 4) return std::string(peer.substr(5));
  in6_addr bytes{};
  if (!peer.starts_with("ipv6:") || !ParseIpv6(peer, bytes)) return std::string(peer);
  return "[" + TextOf(AF_INET6, &bytes) + "]" + std::string(peer.substr(colon));
}

std::string PeerOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(peer);
    return TextOf(AF_INET, &four.sin_addr) + ":" + std::to_string(ntohs(four.sin_port));
  }
  if (peer.ss_family != AF_INET6) return "";
  const auto& six = reinterpret_cast<const sockaddr_in6&>(peer);
  const std::string port = ":" + std::to_string(ntohs(six.sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    return TextOf(AF_INET, six.sin6_addr.s6_addr + kMappedAt) + port;
  }
  return "[" + TextOf(AF_INET6, &six.sin6_addr) + "]" + port;
}

}  // namespace outrider
