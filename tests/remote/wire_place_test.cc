#include "tests/remote/wire_place.h"

#include "gtest/gtest.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {
namespace {

std::string Frame(char type, const std::string& payload) {
  std::string frame(9, '\0');
  frame[2] = static_cast<char>(payload.size());
  frame[3] = type;
  return frame + payload;
}

std::string Framed(const v1::ClientMessage& message) {
  const std::string bytes = message.SerializeAsString();
  std::string header(5, '\0');
  header[4] = static_cast<char>(bytes.size());
  return header + bytes;
}

// Every prefix of a conversation is named by what it ends in.
TEST(WirePlaceTest, NamesWhatIsNotWhole) {
  v1::ClientMessage open, grow;
  open.mutable_open()->set_nonce(7);
  grow.mutable_grow()->set_first_id(1);
  const std::string first = Framed(open);
  const std::string second = Framed(grow);

  std::string whole = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  whole += Frame(4, "") + Frame(1, "headers");
  const size_t data = whole.size() + 9;
  // The second message lies across two frames.
  whole += Frame(0, first + second.substr(0, 6)) + Frame(8, "four") + Frame(0, second.substr(6));

  const auto at = [&](size_t size) {
    return WirePlace::AtEnd(whole.substr(0, size), *v1::ClientMessage::descriptor());
  };
  for (size_t size = 0; size <= data + 5; ++size) EXPECT_EQ(at(size), "handshake") << size;
  for (size_t size = data + 6; size < data + first.size(); ++size) EXPECT_EQ(at(size), "open");
  for (size_t size = 0; size <= 5; ++size) EXPECT_EQ(at(data + first.size() + size), "between");
  for (size_t size = data + first.size() + 6; size < whole.size(); ++size) {
    EXPECT_EQ(at(size), "grow") << size;
  }
  EXPECT_EQ(at(whole.size()), "between");
}

}  // namespace
}  // namespace outrider
