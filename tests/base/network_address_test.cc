#include "common/base/network_address.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(NetworkAddressTest, IsAHostAndAPort) {
  for (const char* text : {"host:1", "[::1]:65535", "127.0.0.1:80", "0.0.0.0:0"}) {
    const auto address = NetworkAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
  EXPECT_EQ(NetworkAddress::Parse("[::1]:65535")->port, 65535);
}

TEST(NetworkAddressTest, OfThisMachineAloneOrOfOthersToo) {
  for (const char* text : {"localhost:1", "127.0.0.1:80", "127.1.2.3:80", "[::1]:80"}) {
    EXPECT_TRUE(NetworkAddress::Parse(text)->is_loopback()) << text;
  }
  for (const char* text : {"127.example.com:1", "host:1", "0.0.0.0:80", "[::]:80", "10.0.0.1:80"}) {
    EXPECT_FALSE(NetworkAddress::Parse(text)->is_loopback()) << text;
  }
}

TEST(NetworkAddressTest, OrIsRefused) {
  for (const char* text : {"", "host", ":7", "host:", "host:x", "host:65536", "host:123456",
                           "host:-1", "host:+1", "host: 1", "host:1 "}) {
    EXPECT_EQ(NetworkAddress::Parse(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace outrider
