// The printable alphabet in which GPT-2's descendants spell bytes: a vocabulary file has "Ġthe"
// where the token is " the".
//
// The bytes 33-126, 161-172 and 174-255 stand for themselves as characters; the other 68 take
// U+0100 and up in increasing order, so a space is U+0120 and a line feed U+010A.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

std::string SpellBytes(std::string_view bytes);

// Nothing when a character is not of the alphabet.
std::optional<std::string> UnspellBytes(std::string_view spelled);

}  // namespace outrider
