#include "server/security/origin.h"

#include <netinet/in.h>

#include <algorithm>

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Origin, IsTheAddressWithoutItsPort) {
  EXPECT_EQ(OriginOf("ipv4:192.0.2.7:41234"), "ipv4:192.0.2.7");
  EXPECT_EQ(OriginOf("ipv4:192.0.2.7:41235"), OriginOf("ipv4:192.0.2.7:1"));
  EXPECT_NE(OriginOf("ipv4:192.0.2.7:1"), OriginOf("ipv4:192.0.2.8:1"));
}

TEST(Origin, OfIpv6IsANetwork) {
  EXPECT_EQ(OriginOf("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:41234"), "ipv6:2001:db8:1:2::");
  EXPECT_EQ(OriginOf("ipv6:[2001:db8:1:2::9]:1"), "ipv6:2001:db8:1:2::");
  EXPECT_NE(OriginOf("ipv6:%5B2001:db8:1:3::9%5D:1"), OriginOf("ipv6:%5B2001:db8:1:2::9%5D:1"));
  EXPECT_EQ(OriginOf("ipv6:%5Bfe80::1%25eth0%5D:1"), "ipv6:fe80::");
}

TEST(Origin, OfWhateverElseIsItsName) {
  EXPECT_EQ(OriginOf("unix:/run/outrider"), "unix:/run/outrider");
  EXPECT_EQ(OriginOf("ipv6:rubbish"), "ipv6:rubbish");
  EXPECT_EQ(OriginOf("ipv4:"), "ipv4:");
  EXPECT_EQ(OriginOf(""), "");
}

// However it is spelled, and with its port.
TEST(Peer, OfASocketIsThatOfItsName) {
  EXPECT_EQ(PeerOf("ipv4:192.0.2.7:41234"), "192.0.2.7:41234");
  EXPECT_EQ(PeerOf("ipv6:%5B2001:db8:0:0::9%5D:1"), "[2001:db8::9]:1");
  EXPECT_EQ(PeerOf("ipv6:[fe80::1%25eth0]:77"), "[fe80::1]:77");
  EXPECT_EQ(PeerOf("unix:/run/outrider"), "unix:/run/outrider");
  EXPECT_EQ(PeerOf("ipv6:rubbish"), "ipv6:rubbish");

  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(0xC0000207);
  four.sin_port = htons(41234);
  EXPECT_EQ(PeerOf(address), "192.0.2.7:41234");
  address = {};
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(1);
  six.sin6_addr.s6_addr[0] = 0x20;
  six.sin6_addr.s6_addr[1] = 0x01;
  six.sin6_addr.s6_addr[15] = 9;
  EXPECT_EQ(PeerOf(address), PeerOf("ipv6:%5B2001::9%5D:1"));
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 7};
  std::copy(mapped, mapped + 16, six.sin6_addr.s6_addr);
  six.sin6_port = htons(41234);
  EXPECT_EQ(PeerOf(address), "192.0.2.7:41234");
}

}  // namespace
}  // namespace outrider
