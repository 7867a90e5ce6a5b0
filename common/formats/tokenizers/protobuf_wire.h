// Protocol-buffer messages without their schema: field by field, as they lie in the bytes.
//
//   ProtobufReader message(bytes);
//   while (message.Next()) {
//     if (message.field() == 1) name = message.bytes();
//   }
//   if (!message.ok()) ...                       // truncated or not a message at all
//
// Enough to read a SentencePiece model without protoc's code for it. Nothing is copied: fields are
// views into the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outrider {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message), size_(message.size()) {}

  // Moves to the next field. False at the end, and where the bytes make no sense.
  bool Next();

  bool ok() const { return ok_; }
  size_t position() const { return size_ - rest_.size(); }

  uint32_t field() const { return field_; }

  // The field's value; zero or empty when it has another wire type.
  uint64_t varint() const { return varint_; }
  int32_t int32() const { return static_cast<int32_t>(varint_); }
  bool boolean() const { return varint_ != 0; }
  float float32() const { return float_; }
  std::string_view bytes() const { return bytes_; }

 private:
  bool Fail();
  bool ReadVarint(uint64_t& value);
  bool Skip(uint64_t count, std::string_view& skipped);

  std::string_view rest_;
  const size_t size_;
  bool ok_ = true;
  uint32_t field_ = 0;
  uint64_t varint_ = 0;
  float float_ = 0;
  std::string_view bytes_;
};

}  // namespace outrider
