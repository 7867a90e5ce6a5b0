#include "common/formats/tokenizers/protobuf_wire.h"

#include <bit>

namespace outrider {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

uint32_t LittleEndian32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

bool ProtobufReader::Fail() {
  ok_ = false;
  return false;
}

bool ProtobufReader::ReadVarint(uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return Fail();
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return Fail();
}

bool ProtobufReader::Skip(uint64_t count, std::string_view& skipped) {
  if (count > rest_.size()) return Fail();
  skipped = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return true;
}

bool ProtobufReader::Next() {
  if (!ok_ || rest_.empty()) return false;
  varint_ = 0;
  float_ = 0;
  bytes_ = {};
  uint64_t tag = 0;
  if (!ReadVarint(tag)) return false;
  if (tag >> 3 == 0 || tag > UINT32_MAX) return Fail();
  field_ = static_cast<uint32_t>(tag >> 3);
  std::string_view fixed;
  switch (tag & 7) {
    case kVarint:
      return ReadVarint(varint_);
    case kFixed64:
      return Skip(8, fixed);
    case kFixed32:
      if (!Skip(4, fixed)) return false;
      float_ = std::bit_cast<float>(LittleEndian32(fixed));
      return true;
    case kLengthDelimited: {
      uint64_t length = 0;
      return ReadVarint(length) && Skip(length, bytes_);
    }
    default:  // groups, which nobody has written for a decade, and two types that never were
      return Fail();
  }
}

}  // namespace outrider
