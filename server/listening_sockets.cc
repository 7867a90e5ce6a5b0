#include "server/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr int kBacklog = 1024;

struct Place {
  const NetworkAddress& address;
  std::string_view flag;
};

struct AddressesFree {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesFree>;

bool IsEveryAddress(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

std::string WithoutBrackets(const std::string& host) {
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

// Null: it stands for none.
Addresses AddressesOf(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return nullptr;
  return Addresses(found);
}

void Set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// Not open, and errno says why.
FileDescriptor ListenAt(const addrinfo& address) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return socket;
  Set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // after another server, not beside it
  if (address.ai_family == AF_INET6) Set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0 &&
      listen(socket.get(), kBacklog) == 0) {
    return socket;
  }
  const int error = errno;
  socket = FileDescriptor();
  errno = error;
  return socket;
}

void SetPort(addrinfo& address, uint16_t port) {
  auto& number = address.ai_family == AF_INET6
                     ? reinterpret_cast<sockaddr_in6*>(address.ai_addr)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(address.ai_addr)->sin_port;
  number = htons(port);
}

absl::Status CannotListen(const Place& place, std::string_view why) {
  return absl::UnavailableError(Concat("cannot listen on ", place.address.ToString(), ": ", why,
                                       "; choose another (", place.flag, ")"));
}

absl::Status CannotListen(const Place& place, int error) {
  if (error == EADDRINUSE) return CannotListen(place, "the port is in use");
  if (error == EADDRNOTAVAIL) return CannotListen(place, "the host is not this machine's");
  return CannotListen(place, std::strerror(error));
}

// Where the addresses are those of a name, a machine that has some of them will do.
absl::StatusOr<std::vector<FileDescriptor>> ListenAtAll(const Place& place, addrinfo* addresses,
                                                        bool one_will_do) {
  std::vector<FileDescriptor> sockets;
  int error = EADDRNOTAVAIL;
  for (addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    if (address->ai_family != AF_INET && address->ai_family != AF_INET6) continue;
    if (!sockets.empty()) SetPort(*address, PortOf(sockets.front()));
    FileDescriptor socket = ListenAt(*address);
    if (!socket.is_open() && errno == EADDRINUSE) return CannotListen(place, EADDRINUSE);
    if (!socket.is_open()) {
      error = errno;
      continue;
    }
    sockets.push_back(std::move(socket));
    if (one_will_do) break;
  }
  if (sockets.empty()) return CannotListen(place, error);
  return sockets;
}

// An IPv6 socket hears of IPv4 too, where the machine has IPv6.
absl::StatusOr<std::vector<FileDescriptor>> ListenEverywhere(const Place& place) {
  for (const char* const host : {"::", "0.0.0.0"}) {
    const Addresses addresses = AddressesOf(host, place.address.port);
    auto sockets = ListenAtAll(place, addresses.get(), /*one_will_do=*/true);
    if (sockets.ok() || host[0] == '0' || errno == EADDRINUSE) return sockets;
  }
  return CannotListen(place, EADDRNOTAVAIL);
}

}  // namespace

absl::StatusOr<std::vector<FileDescriptor>> ListenOn(const NetworkAddress& address,
                                                     std::string_view flag) {
  const Place place = {address, flag};
  const std::string host = WithoutBrackets(address.host);
  if (IsEveryAddress(host)) return ListenEverywhere(place);
  const Addresses addresses = AddressesOf(host, address.port);
  if (addresses == nullptr) return CannotListen(place, "the host is not known");
  return ListenAtAll(place, addresses.get(), /*one_will_do=*/false);
}

uint16_t PortOf(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace outrider
