#include "common/base/quote.h"

namespace outrider {

namespace {

bool IsPlain(char c) {
  return c >= 0x20 && c <= 0x7e;
}

void AppendHex(char c, std::string& out) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += {'\\', 'x', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
}

// How many bytes at the front of `text` a terminal would obey: C0 and DEL; C1, which UTF-8 has as C2
// 80 to C2 9F; U+202A to U+202E and U+2066 to U+2069.
size_t ObeyedBytes(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return 2;
  if (byte(0) != 0xe2) return 0;
  const bool turns = (byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae) ||
                     (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
  return turns ? 3 : 0;
}

}  // namespace

std::string Harmless(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t obeyed = ObeyedBytes(text);
    for (const char c : text.substr(0, obeyed)) AppendHex(c, out);
    if (obeyed == 0) out += text[0];
    text.remove_prefix(obeyed == 0 ? 1 : obeyed);
  }
  return out;
}

std::string Quote(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) {
    if (!IsPlain(c)) {
      AppendHex(c, out);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  out += text.size() > kLongest ? "...\"" : "\"";
  return out;
}

std::string Printable(std::string_view sentence) {
  constexpr size_t kLongest = 1000;
  std::string out;
  for (const char c : sentence.substr(0, kLongest)) {
    if (IsPlain(c)) {
      out += c;
    } else {
      AppendHex(c, out);
    }
  }
  if (sentence.size() > kLongest) out += "...";
  return out;
}

}  // namespace outrider
