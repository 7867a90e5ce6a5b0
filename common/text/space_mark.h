// SentencePiece writes a space as U+2581 ("▁"), and most of its vocabularies have it only at the
// beginning of a token. Where that holds no token crosses from one word to the next, so each word
// can be encoded by itself.
#pragma once

#include <cstddef>
#include <string_view>

namespace outrider {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// The length of what comes before the first U+2581 that follows something else: "▁▁a▁b" -> "▁▁a".
inline size_t FirstMarkedWord(std::string_view text) {
  size_t at = 0;
  while (text.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
  const size_t next = text.find(kSpaceMark, at);
  return next == std::string_view::npos ? text.size() : next;
}

// Whether U+2581 follows something else anywhere in `token`.
inline bool CrossesWords(std::string_view token) {
  return FirstMarkedWord(token) < token.size();
}

}  // namespace outrider
