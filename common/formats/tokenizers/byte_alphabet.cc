#include "common/formats/tokenizers/byte_alphabet.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrider {
namespace {

constexpr bool StandsForItself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr size_t kAlphabetEnd = 256 + 68;  // code points

constexpr std::array<uint16_t, 256> CodePoints() {
  std::array<uint16_t, 256> points{};
  uint16_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    points[byte] = StandsForItself(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return points;
}

constexpr uint16_t kNone = 256;

constexpr std::array<uint16_t, kAlphabetEnd> Bytes() {
  std::array<uint16_t, kAlphabetEnd> bytes{};
  bytes.fill(kNone);
  constexpr std::array<uint16_t, 256> kPoints = CodePoints();
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kPoints[byte]] = static_cast<uint16_t>(byte);
  return bytes;
}

constexpr std::array<uint16_t, 256> kCodePointOf = CodePoints();
constexpr std::array<uint16_t, kAlphabetEnd> kByteOf = Bytes();

}  // namespace

std::string SpellBytes(std::string_view bytes) {
  std::string spelled;
  spelled.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const uint16_t point = kCodePointOf[static_cast<uint8_t>(c)];
    if (point < 0x80) {
      spelled.push_back(static_cast<char>(point));
    } else {
      spelled.push_back(static_cast<char>(0xC0 | point >> 6));
      spelled.push_back(static_cast<char>(0x80 | (point & 0x3F)));
    }
  }
  return spelled;
}

std::optional<std::string> UnspellBytes(std::string_view spelled) {
  std::string bytes;
  bytes.reserve(spelled.size());
  for (size_t i = 0; i < spelled.size(); ++i) {
    unsigned point = static_cast<uint8_t>(spelled[i]);
    if (point >= 0x80) {
      // The whole alphabet lies below U+0144: one or two bytes of UTF-8.
      if (point < 0xC2 || point > 0xC5 || i + 1 == spelled.size()) return std::nullopt;
      const unsigned tail = static_cast<uint8_t>(spelled[++i]);
      if ((tail & 0xC0) != 0x80) return std::nullopt;
      point = (point & 0x1F) << 6 | (tail & 0x3F);
    }
    if (point >= kAlphabetEnd || kByteOf[point] == kNone) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[point]));
  }
  return bytes;
}

}  // namespace outrider
