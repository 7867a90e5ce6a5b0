#include "common/text/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "common/base/status.h"
#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

// One unit of a Darts-clone double array.
struct Unit {
  uint32_t bits;
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  uint32_t value() const { return bits & 0x7FFFFFFF; }
  uint32_t label() const { return bits & 0x800000FF; }
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200) >> 6); }
};

uint32_t LittleEndian32(const char* bytes) {
  unsigned char b[4];
  std::memcpy(b, bytes, sizeof(b));
  return static_cast<uint32_t>(b[0]) | static_cast<uint32_t>(b[1]) << 8 |
         static_cast<uint32_t>(b[2]) << 16 | static_cast<uint32_t>(b[3]) << 24;
}

size_t LongestReplacement(std::string_view replacements) {
  size_t longest = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= replacements.size(); ++i) {
    if (i < replacements.size() && replacements[i] != '\0') continue;
    longest = std::max(longest, i - begin);
    begin = i + 1;
  }
  return longest;
}

// The end of the extended grapheme cluster that starts at `at`.
size_t GraphemeEnd(std::string_view text, size_t at) {
  const auto is_plain = [&](size_t i) {
    return static_cast<unsigned char>(text[i]) < 0x80 && text[i] != '\r';
  };
  if (is_plain(at) && (at + 1 == text.size() || is_plain(at + 1))) return at + 1;
  Character c = DecodeAt(text, at);
  size_t end = at + c.length;
  utf8proc_int32_t state = 0;
  while (end < text.size()) {
    const Character next = DecodeAt(text, end);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    end += next.length;
    c = next;
  }
  return end;
}

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Parse(std::string_view bytes) {
  if (bytes.size() < 4)
    return InvalidArgument("precompiled_charsmap: ", bytes.size(), " bytes hold no trie size");
  const uint32_t trie_bytes = LittleEndian32(bytes.data());
  bytes.remove_prefix(4);
  if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > bytes.size()) {
    return InvalidArgument("precompiled_charsmap: a trie of ", trie_bytes,
                           " bytes does not fit the ", bytes.size(), " bytes that follow");
  }
  Charsmap map;
  map.units_.reserve(trie_bytes / 4);
  for (size_t at = 0; at < trie_bytes; at += 4)
    map.units_.push_back(LittleEndian32(bytes.data() + at));
  map.replacements_ = bytes.substr(trie_bytes);
  std::string repaired;
  if (ValidUtf8(map.replacements_, repaired).data() != map.replacements_.data()) {
    return InvalidArgument("precompiled_charsmap: the replacements are not UTF-8");
  }
  if (const size_t longest = LongestReplacement(map.replacements_);
      longest > kMaxReplacementBytes) {
    return InvalidArgument("precompiled_charsmap: a replacement of ", longest, " bytes, at most ",
                           kMaxReplacementBytes, " are allowed");
  }
  return map;
}

std::optional<std::string_view> Charsmap::Replacement(std::string_view text) const {
  size_t node = Unit{units_[0]}.offset();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size()) break;
    const Unit unit{units_[node]};
    if (unit.label() != byte) break;
    node ^= unit.offset();
    if (!unit.has_leaf()) continue;
    if (node >= units_.size()) break;
    const size_t begin = Unit{units_[node]}.value();
    if (begin > replacements_.size()) break;
    const char* replacement = replacements_.c_str() + begin;
    // A table of good faith points at the beginning of a character.
    if ((static_cast<unsigned char>(*replacement) & 0xC0) == 0x80) break;
    return std::string_view(replacement);  // up to its NUL
  }
  return std::nullopt;
}

void Charsmap::AppendReplaced(std::string_view grapheme, std::string& out) const {
  if (grapheme.size() < 6) {
    if (const auto replacement = Replacement(grapheme)) {
      out.append(*replacement);
      return;
    }
  }
  for (size_t at = 0; at < grapheme.size();) {
    const std::string_view character = grapheme.substr(at, DecodeAt(grapheme, at).length);
    out.append(Replacement(character).value_or(character));
    at += character.size();
  }
}

std::string_view Charsmap::Normalize(std::string_view text, std::string& storage) const {
  storage.clear();
  storage.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = GraphemeEnd(text, at);
    AppendReplaced(text.substr(at, end - at), storage);
    at = end;
  }
  return storage;
}

}  // namespace outrider
