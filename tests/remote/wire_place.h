// Where in a conversation a connection broke, and how long its messages were: what a gRPC call had
// carried one way until then tells.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace outrider {

// What stands at the end of `bytes`, all that one way of an HTTP/2 connection had carried of its
// one call: "handshake" before the call's first message, "between" messages, or the name of the
// message that is not whole, which is of `kind`, ClientMessage or ServerMessage.
class WirePlace {
 public:
  static std::string AtEnd(std::string_view bytes, const google::protobuf::Descriptor& kind) {
    WirePlace place(&kind);
    place.Read(bytes);
    return place.name_;
  }

  // What each whole message of such bytes has, as protobuf encodes it.
  static std::vector<size_t> MessageSizes(std::string_view bytes) {
    WirePlace place(nullptr);
    place.Read(bytes);
    return place.sizes_;
  }

 private:
  static constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static constexpr size_t kFrameHeaderBytes = 9;
  static constexpr size_t kMessageHeaderBytes = 5;  // compressed or not, and a length

  explicit WirePlace(const google::protobuf::Descriptor* kind) : kind_(kind) {}

  void Read(std::string_view bytes) {
    if (bytes.starts_with(kPreface.substr(0, bytes.size()))) {
      bytes.remove_prefix(std::min(bytes.size(), kPreface.size()));
    }
    while (bytes.size() >= kFrameHeaderBytes) {
      const size_t length = BigEndian(bytes.substr(0, 3));
      const bool is_data = bytes[3] == 0;
      bytes.remove_prefix(kFrameHeaderBytes);
      if (is_data) Take(bytes.substr(0, length));
      bytes.remove_prefix(std::min(bytes.size(), length));
    }
  }

  static size_t BigEndian(std::string_view bytes) {
    size_t value = 0;
    for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
    return value;
  }

  // Messages follow one another in frames' data, and may lie across them.
  void Take(std::string_view data) {
    unread_ += data;
    for (;;) {
      if (unread_.size() < kMessageHeaderBytes) break;
      const size_t length = kMessageHeaderBytes + BigEndian(std::string_view(unread_).substr(1, 4));
      if (unread_.size() < length) break;
      unread_.erase(0, length);
      sizes_.push_back(length - kMessageHeaderBytes);
      name_ = "between";
    }
    if (unread_.size() > kMessageHeaderBytes) name_ = NameOf(unread_[kMessageHeaderBytes]);
  }

  // A message begins with the number of its oneof's field.
  std::string NameOf(char tag) const {
    if (kind_ == nullptr) return "";
    const auto* const field = kind_->FindFieldByNumber(static_cast<uint8_t>(tag) >> 3);
    return field == nullptr ? "unknown" : field->name();
  }

  const google::protobuf::Descriptor* const kind_;  // null: nobody asks for names
  std::string unread_;
  std::vector<size_t> sizes_;
  std::string name_ = "handshake";
};

}  // namespace outrider
