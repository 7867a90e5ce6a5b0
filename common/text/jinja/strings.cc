#include "common/text/jinja/strings.h"

#include <utf8proc.h>

#include <algorithm>

#include "common/text/unicode/unicode.h"

namespace outrider::jinja {

namespace {

bool IsLineBreak(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

// Pieces come out in reverse; the callers of the two right-to-left splits turn them round.
std::vector<std::string_view> Reversed(std::vector<std::string_view> pieces) {
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> SplitAtBlanks(std::string_view text, int64_t limit) {
  std::vector<std::string_view> pieces;
  size_t at = 0;
  while (true) {
    while (at < text.size() && IsBlank(DecodeAt(text, at).code)) at += DecodeAt(text, at).length;
    if (at == text.size()) return pieces;
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.push_back(text.substr(at));  // with the blanks at its end, as Python leaves them
      return pieces;
    }
    const size_t start = at;
    while (at < text.size() && !IsBlank(DecodeAt(text, at).code)) at += DecodeAt(text, at).length;
    pieces.push_back(text.substr(start, at - start));
  }
}

std::vector<std::string_view> SplitAtBlanksFromRight(std::string_view text, int64_t limit) {
  std::vector<std::string_view> pieces;
  while (true) {
    text = Strip(text, Side::kRight);
    if (text.empty()) return Reversed(std::move(pieces));
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.push_back(text);
      return Reversed(std::move(pieces));
    }
    size_t start = text.size();
    while (start > 0 && !IsBlank(DecodeBefore(text, start).code)) {
      start -= DecodeBefore(text, start).length;
    }
    pieces.push_back(text.substr(start));
    text = text.substr(0, start);
  }
}

// Knuth, Morris and Pratt. `at(i)` and `wanted(i)` read the text and the piece, forwards or
// backwards; gives how many characters of the text lie before the match.
template <typename At, typename Wanted>
size_t FindLinear(size_t text_size, At at, size_t piece_size, Wanted wanted) {
  // borders[i]: the length of the longest proper prefix of the piece that ends at i.
  std::vector<uint32_t> borders(piece_size, 0);
  for (size_t i = 1, matched = 0; i < piece_size; ++i) {
    while (matched > 0 && wanted(i) != wanted(matched)) matched = borders[matched - 1];
    if (wanted(i) == wanted(matched)) ++matched;
    borders[i] = static_cast<uint32_t>(matched);
  }
  for (size_t i = 0, matched = 0; i < text_size; ++i) {
    while (matched > 0 && at(i) != wanted(matched)) matched = borders[matched - 1];
    if (at(i) == wanted(matched)) ++matched;
    if (matched == piece_size) return i + 1 - piece_size;
  }
  return std::string_view::npos;
}

// The library compares at every place where the first character fits: fine for short pieces.
constexpr size_t kShortPiece = 16;

template <typename Predicate>
bool EveryCharacter(std::string_view text, Predicate predicate) {
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) {
    if (!predicate(DecodeAt(text, at).code)) return false;
  }
  return !text.empty();
}

bool IsLetter(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool IsNumeral(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool IsDecimal(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_ND;
}

}  // namespace

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

size_t ByteOffset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += DecodeAt(text, at).length;
  return at;
}

bool IsBlank(char32_t code) {
  return IsSpace(code) || (code >= 0x1C && code <= 0x1F);
}

size_t CountBlanks(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = DecodeAt(text, at);
    if (IsBlank(character.code)) ++count;
    at += character.length;
  }
  return count;
}

std::string_view Strip(std::string_view text, Side side,
                       std::optional<std::string_view> characters) {
  const auto goes = [&](char32_t code) {
    if (!characters) return IsBlank(code);
    for (size_t at = 0; at < characters->size();) {
      const Character character = DecodeAt(*characters, at);
      if (character.code == code) return true;
      at += character.length;
    }
    return false;
  };
  if (side != Side::kRight) {
    while (!text.empty() && goes(DecodeAt(text, 0).code)) {
      text.remove_prefix(DecodeAt(text, 0).length);
    }
  }
  if (side != Side::kLeft) {
    while (!text.empty() && goes(DecodeBefore(text, text.size()).code)) {
      text.remove_suffix(DecodeBefore(text, text.size()).length);
    }
  }
  return text;
}

std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t limit) {
  if (!separator) return SplitAtBlanks(text, limit);
  std::vector<std::string_view> pieces;
  while (limit < 0 || static_cast<int64_t>(pieces.size()) < limit) {
    const size_t at = FindFirst(text, *separator);
    if (at == std::string_view::npos) break;
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at + separator->size());
  }
  pieces.push_back(text);
  return pieces;
}

std::vector<std::string_view> SplitFromRight(std::string_view text,
                                             std::optional<std::string_view> separator,
                                             int64_t limit) {
  if (!separator) return SplitAtBlanksFromRight(text, limit);
  std::vector<std::string_view> pieces;
  while (limit < 0 || static_cast<int64_t>(pieces.size()) < limit) {
    const size_t at = FindLast(text, *separator);
    if (at == std::string_view::npos) break;
    pieces.push_back(text.substr(at + separator->size()));
    text = text.substr(0, at);
  }
  pieces.push_back(text);
  return Reversed(std::move(pieces));
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = DecodeAt(text, at);
    size_t next = at + character.length;
    if (IsLineBreak(character.code)) {
      if (character.code == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

size_t FindFirst(std::string_view text, std::string_view piece, size_t from) {
  if (piece.size() <= kShortPiece || from > text.size()) return text.find(piece, from);
  text.remove_prefix(from);
  const size_t found = FindLinear(
      text.size(), [text](size_t i) { return text[i]; }, piece.size(),
      [piece](size_t i) { return piece[i]; });
  return found == std::string_view::npos ? found : from + found;
}

size_t FindLast(std::string_view text, std::string_view piece) {
  if (piece.size() <= kShortPiece) return text.rfind(piece);
  const size_t found = FindLinear(
      text.size(), [text](size_t i) { return text[text.size() - 1 - i]; }, piece.size(),
      [piece](size_t i) { return piece[piece.size() - 1 - i]; });
  return found == std::string_view::npos ? found : text.size() - found - piece.size();
}

size_t CountOccurrences(std::string_view text, std::string_view piece) {
  if (piece.empty()) return CountCodePoints(text) + 1;
  size_t count = 0;
  for (size_t at = FindFirst(text, piece); at != std::string_view::npos;
       at = FindFirst(text, piece, at + piece.size())) {
    ++count;
  }
  return count;
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to,
                       int64_t limit) {
  std::string out;
  size_t copied = 0;
  for (int64_t done = 0; limit < 0 || done < limit; ++done) {
    if (from.empty()) {
      out.append(to);
      if (copied == text.size()) return out;
      const size_t length = DecodeAt(text, copied).length;
      out.append(text.substr(copied, length));
      copied += length;
      continue;
    }
    const size_t at = FindFirst(text, from, copied);
    if (at == std::string_view::npos) break;
    out.append(text.substr(copied, at - copied)).append(to);
    copied = at + from.size();
  }
  return out.append(text.substr(copied));
}

bool IsAlpha(std::string_view text) {
  return EveryCharacter(text, IsLetter);
}

bool IsDigit(std::string_view text) {
  return EveryCharacter(text, IsDecimal);
}

bool IsAlphanumeric(std::string_view text) {
  return EveryCharacter(text, [](char32_t code) { return IsLetter(code) || IsNumeral(code); });
}

bool IsAllBlank(std::string_view text) {
  return EveryCharacter(text, IsBlank);
}

bool IsPrintable(char32_t code) {
  if (code == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

}  // namespace outrider::jinja
