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

}  // namespace

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
