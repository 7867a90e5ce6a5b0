// Where a call comes from, as far as what it may cost is counted by that.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace outrider {

// Of gRPC's name for a peer, "ipv4:192.0.2.7:41234" or "ipv6:%5B2001:db8::1%5D:41234": the address
// without its port; of IPv6 the network of 64 bits, in which anybody may take as many addresses as he
// likes. Other names are whole.
std::string OriginOf(std::string_view peer);
// The same of a socket's peer.
std::string OriginOf(const sockaddr_storage& peer);

// The whole of it, with its port, in one spelling: "192.0.2.7:41234", "[2001:db8::1]:41234". Other
// names are as they are.
std::string PeerOf(std::string_view peer);
std::string PeerOf(const sockaddr_storage& peer);

}  // namespace outrider
