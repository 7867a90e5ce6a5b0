// UTF-8 and the character classes tokenizers ask about.
//
// Text from outside is made valid once, at the door (ValidUtf8); everything behind it may decode
// without checking. The classes are those of Unicode 16, as the regex engine of Hugging Face's
// tokenizers has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace outrider {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the beginning of some bytes that may or may not be UTF-8.
struct Utf8Sequence {
  enum class State {
    kWhole,   // one character of `length` bytes
    kBroken,  // the longest prefix of any character, then a byte that does not continue it
    kCut,     // the beginning of a character; the bytes end too soon to tell
  };
  State state;
  size_t length;  // at least 1
};

// `bytes` must not be empty.
Utf8Sequence FirstSequence(std::string_view bytes);

// `text` itself when it is valid UTF-8; otherwise a copy in `storage` where each longest broken
// prefix has become one U+FFFD (as Python's errors="replace" and Rust's from_utf8_lossy read it).
std::string_view ValidUtf8(std::string_view text, std::string& storage);

struct Character {
  char32_t code;
  size_t length;  // bytes
};

// The character that starts at text[at] of valid UTF-8; at < text.size().
inline Character DecodeAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3Fu), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu), 3};
  return {
      (lead & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu),
      4};
}

// The character that ends right before text[end]; end > 0.
Character DecodeBefore(std::string_view text, size_t end);

void AppendUtf8(char32_t code, std::string& out);

bool IsAscii(std::string_view text);

// Sets of characters, as regular expressions name them. Every character is in exactly one of the
// first ten.
namespace character {
using Set = uint16_t;
inline constexpr Set kUpper = 1 << 0;        // \p{Lu}, \p{Lt}
inline constexpr Set kLower = 1 << 1;        // \p{Ll}
inline constexpr Set kCaseless = 1 << 2;     // \p{Lm}, \p{Lo}
inline constexpr Set kMark = 1 << 3;         // \p{M}
inline constexpr Set kDigit = 1 << 4;        // \p{Nd}
inline constexpr Set kNumeral = 1 << 5;      // \p{Nl}, \p{No}
inline constexpr Set kPunctuation = 1 << 6;  // \p{P}
inline constexpr Set kSymbol = 1 << 7;       // \p{S}
inline constexpr Set kSpace = 1 << 8;        // \s, which is Unicode's White_Space
inline constexpr Set kRest = 1 << 9;         // other controls, what is not assigned

inline constexpr Set kLetter = kUpper | kLower | kCaseless;  // \p{L}
inline constexpr Set kNumber = kDigit | kNumeral;            // \p{N}
}  // namespace character

// Which of the ten.
character::Set ClassOfNonAscii(char32_t code);

inline constexpr auto kAsciiClasses = [] {
  std::array<character::Set, 128> classes{};
  for (char32_t code = 0; code < classes.size(); ++code) {
    const bool letter = (code | 0x20) - U'a' < 26;
    classes[code] = letter             ? (code < U'a' ? character::kUpper : character::kLower)
                    : code - U'0' < 10 ? character::kDigit
                    : code - U'\t' < 5 ? character::kSpace
                    : code == U' '     ? character::kSpace
                    : code < U' '      ? character::kRest
                    : code == U'\x7F'  ? character::kRest
                                       : character::kPunctuation;
  }
  for (const char c : std::string_view("$+<=>^`|~"))
    classes[static_cast<size_t>(c)] = character::kSymbol;
  return classes;
}();

inline character::Set ClassOf(char32_t code) {
  return code < 0x80 ? kAsciiClasses[code] : ClassOfNonAscii(code);
}

inline bool IsSpace(char32_t code) {
  return ClassOf(code) == character::kSpace;
}

// \w: letters, marks, decimal digits, connectors (the underscore) and joiners.
bool IsWordCharacter(char32_t code);

}  // namespace outrider
