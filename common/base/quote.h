// Text from a file, made safe to print in an error: "blk.0.attn_q.weight", "\x00\xff...".
#pragma once

#include <string>
#include <string_view>

namespace outrider {

// `text` in double quotes. Bytes outside printable ASCII become \xNN, and what is longer than a
// line of a terminal is cut, so that an error stays one readable line whatever the file holds.
std::string Quote(std::string_view text);

}  // namespace outrider
