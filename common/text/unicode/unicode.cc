#include "common/text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace outrider {

namespace {

using namespace character;

struct NewCharacters {
  char32_t first, last;
  Set set;
};

// Bookworm's utf8proc knows Unicode 14. These are what 15, 15.1 and 16 added; the tokenizers we
// must agree with know them.
constexpr NewCharacters kNewCharacters[] = {{0x897, 0x897, kMark},
                                            {0xCF3, 0xCF3, kMark},
                                            {0xECE, 0xECE, kMark},
                                            {0x1B4E, 0x1B4F, kPunctuation},
                                            {0x1B7F, 0x1B7F, kPunctuation},
                                            {0x1C89, 0x1C89, kUpper},
                                            {0x1C8A, 0x1C8A, kLower},
                                            {0x2427, 0x2429, kSymbol},
                                            {0x2FFC, 0x2FFF, kSymbol},
                                            {0x31E4, 0x31E5, kSymbol},
                                            {0x31EF, 0x31EF, kSymbol},
                                            {0xA7CB, 0xA7CC, kUpper},
                                            {0xA7CD, 0xA7CD, kLower},
                                            {0xA7DA, 0xA7DA, kUpper},
                                            {0xA7DB, 0xA7DB, kLower},
                                            {0xA7DC, 0xA7DC, kUpper},
                                            {0x105C0, 0x105F3, kCaseless},
                                            {0x10D40, 0x10D49, kDigit},
                                            {0x10D4A, 0x10D4F, kCaseless},
                                            {0x10D50, 0x10D65, kUpper},
                                            {0x10D69, 0x10D6D, kMark},
                                            {0x10D6E, 0x10D6E, kPunctuation},
                                            {0x10D6F, 0x10D6F, kCaseless},
                                            {0x10D70, 0x10D85, kLower},
                                            {0x10D8E, 0x10D8F, kSymbol},
                                            {0x10EC2, 0x10EC4, kCaseless},
                                            {0x10EFC, 0x10EFF, kMark},
                                            {0x1123F, 0x11240, kCaseless},
                                            {0x11241, 0x11241, kMark},
                                            {0x11380, 0x11389, kCaseless},
                                            {0x1138B, 0x1138B, kCaseless},
                                            {0x1138E, 0x1138E, kCaseless},
                                            {0x11390, 0x113B5, kCaseless},
                                            {0x113B7, 0x113B7, kCaseless},
                                            {0x113B8, 0x113C0, kMark},
                                            {0x113C2, 0x113C2, kMark},
                                            {0x113C5, 0x113C5, kMark},
                                            {0x113C7, 0x113CA, kMark},
                                            {0x113CC, 0x113D0, kMark},
                                            {0x113D1, 0x113D1, kCaseless},
                                            {0x113D2, 0x113D2, kMark},
                                            {0x113D3, 0x113D3, kCaseless},
                                            {0x113D4, 0x113D5, kPunctuation},
                                            {0x113D7, 0x113D8, kPunctuation},
                                            {0x113E1, 0x113E2, kMark},
                                            {0x116D0, 0x116E3, kDigit},
                                            {0x11B00, 0x11B09, kPunctuation},
                                            {0x11BC0, 0x11BE0, kCaseless},
                                            {0x11BE1, 0x11BE1, kPunctuation},
                                            {0x11BF0, 0x11BF9, kDigit},
                                            {0x11F00, 0x11F01, kMark},
                                            {0x11F02, 0x11F02, kCaseless},
                                            {0x11F03, 0x11F03, kMark},
                                            {0x11F04, 0x11F10, kCaseless},
                                            {0x11F12, 0x11F33, kCaseless},
                                            {0x11F34, 0x11F3A, kMark},
                                            {0x11F3E, 0x11F42, kMark},
                                            {0x11F43, 0x11F4F, kPunctuation},
                                            {0x11F50, 0x11F59, kDigit},
                                            {0x11F5A, 0x11F5A, kMark},
                                            {0x1342F, 0x1342F, kCaseless},
                                            {0x13440, 0x13440, kMark},
                                            {0x13441, 0x13446, kCaseless},
                                            {0x13447, 0x13455, kMark},
                                            {0x13460, 0x143FA, kCaseless},
                                            {0x16100, 0x1611D, kCaseless},
                                            {0x1611E, 0x1612F, kMark},
                                            {0x16130, 0x16139, kDigit},
                                            {0x16D40, 0x16D6C, kCaseless},
                                            {0x16D6D, 0x16D6F, kPunctuation},
                                            {0x16D70, 0x16D79, kDigit},
                                            {0x18CFF, 0x18CFF, kCaseless},
                                            {0x1B132, 0x1B132, kCaseless},
                                            {0x1B155, 0x1B155, kCaseless},
                                            {0x1CC00, 0x1CCEF, kSymbol},
                                            {0x1CCF0, 0x1CCF9, kDigit},
                                            {0x1CD00, 0x1CEB3, kSymbol},
                                            {0x1D2C0, 0x1D2D3, kNumeral},
                                            {0x1DF25, 0x1DF2A, kLower},
                                            {0x1E030, 0x1E06D, kCaseless},
                                            {0x1E08F, 0x1E08F, kMark},
                                            {0x1E4D0, 0x1E4EB, kCaseless},
                                            {0x1E4EC, 0x1E4EF, kMark},
                                            {0x1E4F0, 0x1E4F9, kDigit},
                                            {0x1E5D0, 0x1E5ED, kCaseless},
                                            {0x1E5EE, 0x1E5EF, kMark},
                                            {0x1E5F0, 0x1E5F0, kCaseless},
                                            {0x1E5F1, 0x1E5FA, kDigit},
                                            {0x1E5FF, 0x1E5FF, kPunctuation},
                                            {0x1F6DC, 0x1F6DC, kSymbol},
                                            {0x1F774, 0x1F776, kSymbol},
                                            {0x1F77B, 0x1F77F, kSymbol},
                                            {0x1F7D9, 0x1F7D9, kSymbol},
                                            {0x1F8B2, 0x1F8BB, kSymbol},
                                            {0x1F8C0, 0x1F8C1, kSymbol},
                                            {0x1FA75, 0x1FA77, kSymbol},
                                            {0x1FA87, 0x1FA89, kSymbol},
                                            {0x1FA8F, 0x1FA8F, kSymbol},
                                            {0x1FAAD, 0x1FAAF, kSymbol},
                                            {0x1FABB, 0x1FABF, kSymbol},
                                            {0x1FAC6, 0x1FAC6, kSymbol},
                                            {0x1FACE, 0x1FACF, kSymbol},
                                            {0x1FADA, 0x1FADC, kSymbol},
                                            {0x1FADF, 0x1FADF, kSymbol},
                                            {0x1FAE8, 0x1FAE9, kSymbol},
                                            {0x1FAF7, 0x1FAF8, kSymbol},
                                            {0x1FBCB, 0x1FBEF, kSymbol},
                                            {0x2B739, 0x2B739, kCaseless},
                                            {0x2EBF0, 0x2EE5D, kCaseless},
                                            {0x31350, 0x323AF, kCaseless}};

Set SetOfNewCharacter(char32_t code) {
  const auto* next = std::upper_bound(
      std::begin(kNewCharacters), std::end(kNewCharacters), code,
      [](char32_t c, const NewCharacters& characters) { return c < characters.first; });
  if (next == std::begin(kNewCharacters)) return kRest;
  const NewCharacters& characters = *std::prev(next);
  return code <= characters.last ? characters.set : kRest;
}

Set SetOfCategory(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kCaseless;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
      return kDigit;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumeral;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kSymbol;
    default:
      return kRest;
  }
}

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

Set ClassOfNonAscii(char32_t code) {
  if (IsNonAsciiSpace(code)) return kSpace;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_CN ? SetOfNewCharacter(code) : SetOfCategory(category);
}

bool IsWordCharacter(char32_t code) {
  if (ClassOf(code) & (kLetter | kMark | kDigit)) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
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
