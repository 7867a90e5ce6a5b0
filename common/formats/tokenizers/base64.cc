#include "common/formats/tokenizers/base64.h"

#include <cstdint>

namespace outrider {
namespace {

// The six bits of a character, or -1.
int Bits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

}  // namespace

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t window = 0;
  unsigned window_bits = 0;
  for (const char c : text) {
    const int bits = Bits(c);
    if (bits < 0) return std::nullopt;
    window = window << 6 | static_cast<uint32_t>(bits);
    window_bits += 6;
    if (window_bits >= 8) {
      window_bits -= 8;
      bytes.push_back(static_cast<char>(window >> window_bits & 0xFF));
    }
  }
  return bytes;
}

}  // namespace outrider
