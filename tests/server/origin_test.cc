#include "server/security/origin.h"

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

}  // namespace
}  // namespace outrider
