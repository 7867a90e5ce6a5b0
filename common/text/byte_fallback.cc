#include "common/text/byte_fallback.h"

#include <algorithm>
#include <charconv>

namespace outrider {

std::optional<unsigned char> ByteOfToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return byte;
}

ByteFallback::ByteFallback(const TokenizerSpec& spec) {
  if (!spec.byte_fallback) return;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].kind != TokenKind::kByte) continue;
    const auto byte = ByteOfToken(spec.tokens[id].text);
    if (byte && !byte_ids_[*byte]) byte_ids_[*byte] = static_cast<TokenId>(id);
  }
}

bool ByteFallback::AppendBytes(std::string_view text, std::vector<TokenId>& ids) const {
  const auto has_token = [&](char c) {
    return byte_ids_[static_cast<unsigned char>(c)].has_value();
  };
  if (!std::all_of(text.begin(), text.end(), has_token)) return false;
  for (const char c : text) ids.push_back(*byte_ids_[static_cast<unsigned char>(c)]);
  return true;
}

}  // namespace outrider
