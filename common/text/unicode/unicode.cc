#include "common/text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace outrider {

namespace {

struct Range {
  char32_t first, last;
};

bool Contains(const Range* begin, const Range* end, char32_t code) {
  const Range* range =
      std::upper_bound(begin, end, code, [](char32_t c, const Range& r) { return c < r.first; });
  return range != begin && code <= std::prev(range)->last;
}

// Bookworm's utf8proc knows Unicode 14. These are the letters and numbers that 15, 15.1 and 16
// added; the tokenizers we must agree with know them.
constexpr Range kNewLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x1123F, 0x11240},
    {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5},
    {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x1342F, 0x1342F},
    {0x13441, 0x13446}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C},
    {0x18CFF, 0x18CFF}, {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1DF25, 0x1DF2A},
    {0x1E030, 0x1E06D}, {0x1E4D0, 0x1E4EB}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0},
    {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF}};
constexpr Range kNewNumbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9},
                                 {0x11F50, 0x11F59}, {0x16130, 0x16139}, {0x16D70, 0x16D79},
                                 {0x1CCF0, 0x1CCF9}, {0x1D2C0, 0x1D2D3}, {0x1E4F0, 0x1E4F9},
                                 {0x1E5F1, 0x1E5FA}};

bool IsNonAsciiSpace(char32_t code) {
  switch (code) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return code >= 0x2000 && code <= 0x200A;
  }
}

// The second byte of a character is the only one whose range depends on the first.
bool SecondByteFits(unsigned char lead, unsigned char second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0 && second <= 0xBF;
    case 0xED:
      return second >= 0x80 && second <= 0x9F;  // no surrogates
    case 0xF0:
      return second >= 0x90 && second <= 0xBF;
    case 0xF4:
      return second >= 0x80 && second <= 0x8F;  // nothing above U+10FFFF
    default:
      return second >= 0x80 && second <= 0xBF;
  }
}

// The length of the valid UTF-8 that `text` begins with.
size_t ValidPrefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (text.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const Utf8Sequence sequence = FirstSequence(text.substr(at));
    if (sequence.state != Utf8Sequence::State::kWhole) break;
    at += sequence.length;
  }
  return at;
}

}  // namespace

Utf8Sequence FirstSequence(std::string_view bytes) {
  using State = Utf8Sequence::State;
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {State::kWhole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {State::kBroken, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {State::kCut, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool fits = i == 1 ? SecondByteFits(lead, byte) : (byte & 0xC0) == 0x80;
    if (!fits) return {State::kBroken, i};
  }
  return {State::kWhole, length};
}

std::string_view ValidUtf8(std::string_view text, std::string& storage) {
  size_t valid = ValidPrefix(text);
  if (valid == text.size()) return text;
  storage.clear();
  storage.reserve(text.size() + 16);
  for (;;) {
    storage.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return storage;
    storage.append(kReplacementCharacter);
    text.remove_prefix(FirstSequence(text).length);
    valid = ValidPrefix(text);
  }
}

Character DecodeBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return DecodeAt(text, begin);
}

void AppendUtf8(char32_t code, std::string& out) {
  const auto continuation = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    out.push_back(continuation(code));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    out.push_back(continuation(code >> 6));
    out.push_back(continuation(code));
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    out.push_back(continuation(code >> 12));
    out.push_back(continuation(code >> 6));
    out.push_back(continuation(code));
  }
}

bool IsAscii(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

CharacterClass ClassOfNonAscii(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::kNumber;
    case UTF8PROC_CATEGORY_CN:
      if (Contains(std::begin(kNewLetters), std::end(kNewLetters), code))
        return CharacterClass::kLetter;
      if (Contains(std::begin(kNewNumbers), std::end(kNewNumbers), code))
        return CharacterClass::kNumber;
      return CharacterClass::kOther;
    default:
      return IsNonAsciiSpace(code) ? CharacterClass::kSpace : CharacterClass::kOther;
  }
}

bool IsWordCharacter(char32_t code) {
  if (ClassOf(code) == CharacterClass::kLetter) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      // Joiners, and the circled letters, which are symbols that count as alphabetic.
      return code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
             (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
             (code >= 0x1F170 && code <= 0x1F189);
  }
}

}  // namespace outrider
