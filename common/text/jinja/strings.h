// Python's str, as far as templates use it: positions count code points, blanks and letters are
// Unicode's. All texts are valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outrider::jinja {

size_t CountCodePoints(std::string_view text);

// The byte where code point `index` starts; text.size() for an index at or past the end.
size_t ByteOffset(std::string_view text, size_t index);

// str.isspace of one character. Unlike Unicode's White_Space it has U+001C..U+001F.
bool IsBlank(char32_t code);

size_t CountBlanks(std::string_view text);

enum class Side : uint8_t { kLeft, kRight, kBoth };

// Without `characters` blanks go, with them each of these.
std::string_view Strip(std::string_view text, Side side,
                       std::optional<std::string_view> characters = std::nullopt);

// str.split and str.rsplit: at runs of blanks without a separator, else at each separator (not
// empty). `limit` cuts at most, negative for no limit.
std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t limit);
std::vector<std::string_view> SplitFromRight(std::string_view text,
                                             std::optional<std::string_view> separator,
                                             int64_t limit);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

// The first or the last occurrence of `piece`, npos for none; in linear time whatever the texts
// are, since a template may choose both.
size_t FindFirst(std::string_view text, std::string_view piece, size_t from = 0);
size_t FindLast(std::string_view text, std::string_view piece);

// How often `piece` occurs, without overlaps; an empty one stands between all characters.
size_t CountOccurrences(std::string_view text, std::string_view piece);

// The first `limit` occurrences replaced (all when negative). The caller has checked the size.
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to,
                       int64_t limit);

// Full Unicode mappings: "ß" becomes "SS".
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Capitalize(std::string_view text);  // str.capitalize
std::string Title(std::string_view text);       // str.title: letters after a non-letter
std::string SwapCase(std::string_view text);

// str.isalpha and its kin: every character is of the class, and there is one.
bool IsAlpha(std::string_view text);
bool IsDigit(std::string_view text);
bool IsAlphanumeric(std::string_view text);
bool IsAllBlank(std::string_view text);
// str.islower, str.isupper: there is a letter with case, and none of the other.
bool IsLower(std::string_view text);
bool IsUpper(std::string_view text);

// Whether repr() shows the character itself.
bool IsPrintable(char32_t code);

}  // namespace outrider::jinja
