// Unicode Normalization Form C: "e" + U+0301 becomes "é".
//
// Almost all text is composed already, so only the stretches around a character that could change
// are decomposed, ordered and composed again (by utf8proc's tables, of Unicode 14). Linear but for
// the n log n ordering of one base character's marks.
#pragma once

#include <string>
#include <string_view>

namespace outrider {

// `text` (valid UTF-8) itself when nothing in it can change, otherwise its composed form in
// `storage`.
std::string_view ComposeNfc(std::string_view text, std::string& storage);

}  // namespace outrider
