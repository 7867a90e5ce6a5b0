#include "common/text/unicode/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

// False only for characters that stay as they are whatever stands before them: starters without a
// canonical decomposition that never compose. (Some that stay, too, answer true: that costs time,
// nothing else.)
bool MayChange(char32_t code) {
  if (code < 0x300) return false;  // composed Latin-1 and Latin Extended-A/B are their own NFC
  // The vowels and finals of Hangul compose by arithmetic, not by table. (U+11A7, which stands
  // right before the finals, does not; utf8proc takes it for one, but never gets to see it behind a
  // syllable.)
  if (code >= 0x1161 && code <= 0x1175) return true;
  if (code >= 0x11A8 && code <= 0x11C2) return true;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
  const bool decomposes = property->decomp_seqindex != UINT16_MAX && property->decomp_type == 0;
  return property->combining_class != 0 || decomposes || property->comb_index != UINT16_MAX;
}

int CombiningClass(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

// utf8proc's own ordering is a bubble sort; a hostile run of marks would take it quadratic time.
void OrderMarks(std::vector<utf8proc_int32_t>& codes) {
  for (size_t begin = 0; begin < codes.size();) {
    if (CombiningClass(codes[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < codes.size() && CombiningClass(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(begin),
                     codes.begin() + static_cast<ptrdiff_t>(end),
                     [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

void Compose(std::string_view text, std::vector<utf8proc_int32_t>& codes, std::string& out) {
  codes.clear();
  for (size_t at = 0; at < text.size();) {
    const Character c = DecodeAt(text, at);
    at += c.length;
    utf8proc_int32_t parts[8];  // a canonical decomposition has at most four
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code),
                                                           parts, 8, UTF8PROC_DECOMPOSE, nullptr);
    OUTRIDER_CHECK(count >= 0 && count <= 8, "every code point of valid UTF-8 decomposes");
    codes.insert(codes.end(), parts, parts + count);
  }
  OrderMarks(codes);
  const utf8proc_ssize_t length =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  OUTRIDER_CHECK(length >= 0, "code points compose");
  for (utf8proc_ssize_t i = 0; i < length; ++i)
    AppendUtf8(static_cast<char32_t>(codes[static_cast<size_t>(i)]), out);
}

}  // namespace

std::string_view ComposeNfc(std::string_view text, std::string& storage) {
  storage.clear();
  std::vector<utf8proc_int32_t> codes;
  size_t copied = 0;    // text before this is in `storage`
  size_t previous = 0;  // where the character before `at` starts
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      previous = at++;
      continue;
    }
    Character c = DecodeAt(text, at);
    if (!MayChange(c.code)) {
      previous = at;
      at += c.length;
      continue;
    }
    // The stretch to compose: the character before, which may take part, and everything up to the
    // next that cannot.
    const size_t begin = previous;
    do {
      at += c.length;
      if (at == text.size()) break;
      c = DecodeAt(text, at);
    } while (MayChange(c.code));
    storage.append(text.substr(copied, begin - copied));
    Compose(text.substr(begin, at - begin), codes, storage);
    copied = previous = at;
  }
  if (copied == 0) return text;
  storage.append(text.substr(copied));
  return storage;
}

}  // namespace outrider
