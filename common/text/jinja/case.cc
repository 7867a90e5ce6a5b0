// Upper and lower case, after Unicode's default algorithms: utf8proc has the one-to-one mappings,
// here are those that turn one character into several (SpecialCasing.txt) and the final sigma.
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "common/text/jinja/strings.h"
#include "common/text/unicode/unicode.h"

namespace outrider::jinja {

namespace {

struct SpecialCase {
  char32_t code;
  char32_t upper[3];
  char32_t title[3];
};

constexpr SpecialCase kSpecialCases[] = {
    // clang-format off
    {0x00DF, {0x0053, 0x0053}, {0x0053, 0x0073}},
    {0x0149, {0x02BC, 0x004E}, {0x02BC, 0x004E}},
    {0x01F0, {0x004A, 0x030C}, {0x004A, 0x030C}},
    {0x0390, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x03B0, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}},
    {0x0587, {0x0535, 0x0552}, {0x0535, 0x0582}},
    {0x1E96, {0x0048, 0x0331}, {0x0048, 0x0331}},
    {0x1E97, {0x0054, 0x0308}, {0x0054, 0x0308}},
    {0x1E98, {0x0057, 0x030A}, {0x0057, 0x030A}},
    {0x1E99, {0x0059, 0x030A}, {0x0059, 0x030A}},
    {0x1E9A, {0x0041, 0x02BE}, {0x0041, 0x02BE}},
    {0x1F50, {0x03A5, 0x0313}, {0x03A5, 0x0313}},
    {0x1F52, {0x03A5, 0x0313, 0x0300}, {0x03A5, 0x0313, 0x0300}},
    {0x1F54, {0x03A5, 0x0313, 0x0301}, {0x03A5, 0x0313, 0x0301}},
    {0x1F56, {0x03A5, 0x0313, 0x0342}, {0x03A5, 0x0313, 0x0342}},
    {0x1F80, {0x1F08, 0x0399}, {0x1F88}},
    {0x1F81, {0x1F09, 0x0399}, {0x1F89}},
    {0x1F82, {0x1F0A, 0x0399}, {0x1F8A}},
    {0x1F83, {0x1F0B, 0x0399}, {0x1F8B}},
    {0x1F84, {0x1F0C, 0x0399}, {0x1F8C}},
    {0x1F85, {0x1F0D, 0x0399}, {0x1F8D}},
    {0x1F86, {0x1F0E, 0x0399}, {0x1F8E}},
    {0x1F87, {0x1F0F, 0x0399}, {0x1F8F}},
    {0x1F88, {0x1F08, 0x0399}, {0x1F88}},
    {0x1F89, {0x1F09, 0x0399}, {0x1F89}},
    {0x1F8A, {0x1F0A, 0x0399}, {0x1F8A}},
    {0x1F8B, {0x1F0B, 0x0399}, {0x1F8B}},
    {0x1F8C, {0x1F0C, 0x0399}, {0x1F8C}},
    {0x1F8D, {0x1F0D, 0x0399}, {0x1F8D}},
    {0x1F8E, {0x1F0E, 0x0399}, {0x1F8E}},
    {0x1F8F, {0x1F0F, 0x0399}, {0x1F8F}},
    {0x1F90, {0x1F28, 0x0399}, {0x1F98}},
    {0x1F91, {0x1F29, 0x0399}, {0x1F99}},
    {0x1F92, {0x1F2A, 0x0399}, {0x1F9A}},
    {0x1F93, {0x1F2B, 0x0399}, {0x1F9B}},
    {0x1F94, {0x1F2C, 0x0399}, {0x1F9C}},
    {0x1F95, {0x1F2D, 0x0399}, {0x1F9D}},
    {0x1F96, {0x1F2E, 0x0399}, {0x1F9E}},
    {0x1F97, {0x1F2F, 0x0399}, {0x1F9F}},
    {0x1F98, {0x1F28, 0x0399}, {0x1F98}},
    {0x1F99, {0x1F29, 0x0399}, {0x1F99}},
    {0x1F9A, {0x1F2A, 0x0399}, {0x1F9A}},
    {0x1F9B, {0x1F2B, 0x0399}, {0x1F9B}},
    {0x1F9C, {0x1F2C, 0x0399}, {0x1F9C}},
    {0x1F9D, {0x1F2D, 0x0399}, {0x1F9D}},
    {0x1F9E, {0x1F2E, 0x0399}, {0x1F9E}},
    {0x1F9F, {0x1F2F, 0x0399}, {0x1F9F}},
    {0x1FA0, {0x1F68, 0x0399}, {0x1FA8}},
    {0x1FA1, {0x1F69, 0x0399}, {0x1FA9}},
    {0x1FA2, {0x1F6A, 0x0399}, {0x1FAA}},
    {0x1FA3, {0x1F6B, 0x0399}, {0x1FAB}},
    {0x1FA4, {0x1F6C, 0x0399}, {0x1FAC}},
    {0x1FA5, {0x1F6D, 0x0399}, {0x1FAD}},
    {0x1FA6, {0x1F6E, 0x0399}, {0x1FAE}},
    {0x1FA7, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FA8, {0x1F68, 0x0399}, {0x1FA8}},
    {0x1FA9, {0x1F69, 0x0399}, {0x1FA9}},
    {0x1FAA, {0x1F6A, 0x0399}, {0x1FAA}},
    {0x1FAB, {0x1F6B, 0x0399}, {0x1FAB}},
    {0x1FAC, {0x1F6C, 0x0399}, {0x1FAC}},
    {0x1FAD, {0x1F6D, 0x0399}, {0x1FAD}},
    {0x1FAE, {0x1F6E, 0x0399}, {0x1FAE}},
    {0x1FAF, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FB2, {0x1FBA, 0x0399}, {0x1FBA, 0x0345}},
    {0x1FB3, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FB4, {0x0386, 0x0399}, {0x0386, 0x0345}},
    {0x1FB6, {0x0391, 0x0342}, {0x0391, 0x0342}},
    {0x1FB7, {0x0391, 0x0342, 0x0399}, {0x0391, 0x0342, 0x0345}},
    {0x1FBC, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FC2, {0x1FCA, 0x0399}, {0x1FCA, 0x0345}},
    {0x1FC3, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FC4, {0x0389, 0x0399}, {0x0389, 0x0345}},
    {0x1FC6, {0x0397, 0x0342}, {0x0397, 0x0342}},
    {0x1FC7, {0x0397, 0x0342, 0x0399}, {0x0397, 0x0342, 0x0345}},
    {0x1FCC, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FD2, {0x0399, 0x0308, 0x0300}, {0x0399, 0x0308, 0x0300}},
    {0x1FD3, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x1FD6, {0x0399, 0x0342}, {0x0399, 0x0342}},
    {0x1FD7, {0x0399, 0x0308, 0x0342}, {0x0399, 0x0308, 0x0342}},
    {0x1FE2, {0x03A5, 0x0308, 0x0300}, {0x03A5, 0x0308, 0x0300}},
    {0x1FE3, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}},
    {0x1FE4, {0x03A1, 0x0313}, {0x03A1, 0x0313}},
    {0x1FE6, {0x03A5, 0x0342}, {0x03A5, 0x0342}},
    {0x1FE7, {0x03A5, 0x0308, 0x0342}, {0x03A5, 0x0308, 0x0342}},
    {0x1FF2, {0x1FFA, 0x0399}, {0x1FFA, 0x0345}},
    {0x1FF3, {0x03A9, 0x0399}, {0x1FFC}},
    {0x1FF4, {0x038F, 0x0399}, {0x038F, 0x0345}},
    {0x1FF6, {0x03A9, 0x0342}, {0x03A9, 0x0342}},
    {0x1FF7, {0x03A9, 0x0342, 0x0399}, {0x03A9, 0x0342, 0x0345}},
    {0x1FFC, {0x03A9, 0x0399}, {0x1FFC}},
    {0xFB00, {0x0046, 0x0046}, {0x0046, 0x0066}},
    {0xFB01, {0x0046, 0x0049}, {0x0046, 0x0069}},
    {0xFB02, {0x0046, 0x004C}, {0x0046, 0x006C}},
    {0xFB03, {0x0046, 0x0046, 0x0049}, {0x0046, 0x0066, 0x0069}},
    {0xFB04, {0x0046, 0x0046, 0x004C}, {0x0046, 0x0066, 0x006C}},
    {0xFB05, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xFB06, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xFB13, {0x0544, 0x0546}, {0x0544, 0x0576}},
    {0xFB14, {0x0544, 0x0535}, {0x0544, 0x0565}},
    {0xFB15, {0x0544, 0x053B}, {0x0544, 0x056B}},
    {0xFB16, {0x054E, 0x0546}, {0x054E, 0x0576}},
    {0xFB17, {0x0544, 0x053D}, {0x0544, 0x056D}},
    // clang-format on
};

const SpecialCase* FindSpecialCase(char32_t code) {
  const SpecialCase* found =
      std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), code,
                       [](const SpecialCase& entry, char32_t key) { return entry.code < key; });
  return found != std::end(kSpecialCases) && found->code == code ? found : nullptr;
}

void AppendAll(const char32_t (&codes)[3], std::string& out) {
  for (const char32_t code : codes) {
    if (code != 0) AppendUtf8(code, out);
  }
}

char32_t Simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t code) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(code)));
}

void AppendUpper(char32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code - U'a' < 26 ? code - 32 : code));
  } else if (const SpecialCase* special = FindSpecialCase(code)) {
    AppendAll(special->upper, out);
  } else {
    AppendUtf8(Simple(utf8proc_toupper, code), out);
  }
}

void AppendTitle(char32_t code, std::string& out) {
  if (code < 0x80) {
    AppendUpper(code, out);
  } else if (const SpecialCase* special = FindSpecialCase(code)) {
    AppendAll(special->title, out);
  } else {
    AppendUtf8(Simple(utf8proc_totitle, code), out);
  }
}

utf8proc_category_t Category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool IsLowerLetter(char32_t code) {
  return Category(code) == UTF8PROC_CATEGORY_LL || Simple(utf8proc_toupper, code) != code;
}

bool IsUpperLetter(char32_t code) {
  return Category(code) == UTF8PROC_CATEGORY_LU || Simple(utf8proc_tolower, code) != code;
}

bool IsCased(char32_t code) {
  return Category(code) == UTF8PROC_CATEGORY_LT || IsLowerLetter(code) || IsUpperLetter(code);
}

// What may stand between a letter and a sigma without ending the word.
bool IsCaseIgnorable(char32_t code) {
  static constexpr char32_t kInsideWords[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                              0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                              0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  if (std::find(std::begin(kInsideWords), std::end(kInsideWords), code) != std::end(kInsideWords)) {
    return true;
  }
  switch (Category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

// A sigma at the end of a word, which is to become U+03C2.
bool IsFinalSigma(std::string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && IsCaseIgnorable(DecodeBefore(text, before).code)) {
    before -= DecodeBefore(text, before).length;
  }
  if (before == 0 || !IsCased(DecodeBefore(text, before).code)) return false;
  size_t after = at + DecodeAt(text, at).length;
  while (after < text.size() && IsCaseIgnorable(DecodeAt(text, after).code)) {
    after += DecodeAt(text, after).length;
  }
  return after == text.size() || !IsCased(DecodeAt(text, after).code);
}

void AppendLower(std::string_view text, size_t at, std::string& out) {
  constexpr char32_t kCapitalSigma = 0x3A3, kCapitalDottedI = 0x130;
  const char32_t code = DecodeAt(text, at).code;
  if (code < 0x80) {
    out.push_back(static_cast<char>(code - U'A' < 26 ? code + 32 : code));
  } else if (code == kCapitalSigma) {
    AppendUtf8(IsFinalSigma(text, at) ? 0x3C2 : 0x3C3, out);
  } else if (code == kCapitalDottedI) {
    AppendUtf8(U'i', out);
    AppendUtf8(0x307, out);
  } else {
    AppendUtf8(Simple(utf8proc_tolower, code), out);
  }
}

}  // namespace

std::string Upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) {
    AppendUpper(DecodeAt(text, at).code, out);
  }
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) {
    AppendLower(text, at, out);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  if (text.empty()) return out;
  const Character first = DecodeAt(text, 0);
  AppendTitle(first.code, out);
  for (size_t at = first.length; at < text.size(); at += DecodeAt(text, at).length) {
    AppendLower(text, at, out);
  }
  return out;
}

std::string Title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) {
    const char32_t code = DecodeAt(text, at).code;
    if (in_word) {
      AppendLower(text, at, out);
    } else {
      AppendTitle(code, out);
    }
    in_word = IsCased(code);
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) {
    const char32_t code = DecodeAt(text, at).code;
    if (IsUpperLetter(code)) {
      AppendLower(text, at, out);
    } else if (IsLowerLetter(code)) {
      AppendUpper(code, out);
    } else {
      AppendUtf8(code, out);
    }
  }
  return out;
}

bool IsLower(std::string_view text) {
  bool found = false;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) {
    const char32_t code = DecodeAt(text, at).code;
    if (IsUpperLetter(code) || Category(code) == UTF8PROC_CATEGORY_LT) return false;
    found = found || IsLowerLetter(code);
  }
  return found;
}

bool IsUpper(std::string_view text) {
  bool found = false;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) {
    const char32_t code = DecodeAt(text, at).code;
    if (IsLowerLetter(code) || Category(code) == UTF8PROC_CATEGORY_LT) return false;
    found = found || IsUpperLetter(code);
  }
  return found;
}

}  // namespace outrider::jinja
