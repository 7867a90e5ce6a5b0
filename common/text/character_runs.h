// Runs of characters, as the expressions of pre-tokenizers are made of. Private to this room.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include "common/text/unicode/unicode.h"

namespace outrider {

// The end of the run of characters for which belongs(code) that starts at `at` (`at` itself when
// there is none).
template <std::predicate<char32_t> Belongs>
size_t RunEnd(std::string_view text, size_t at, Belongs belongs) {
  while (at < text.size()) {
    const Character c = DecodeAt(text, at);
    if (!belongs(c.code)) break;
    at += c.length;
  }
  return at;
}

inline size_t RunEnd(std::string_view text, size_t at, character::Set set) {
  return RunEnd(text, at, [set](char32_t code) { return (ClassOf(code) & set) != 0; });
}

// Whether a character of `set` stands at `at`.
inline bool HasAt(std::string_view text, size_t at, character::Set set) {
  return at < text.size() && (ClassOf(DecodeAt(text, at).code) & set) != 0;
}

inline bool IsNewline(char c) {
  return c == '\r' || c == '\n';
}

}  // namespace outrider
