// Text from outside, made safe to print: a name from a file in an error ("blk.0.attn_q.weight",
// "\x00\xff..."), a sentence that another machine has sent.
#pragma once

#include <string>
#include <string_view>

namespace outrider {

// `text` in double quotes. Bytes outside printable ASCII become \xNN, and what is longer than a
// line of a terminal is cut, so that an error stays one readable line whatever the file holds.
std::string Quote(std::string_view text);

// A sentence of somebody else's, to be shown at a terminal or in a log: as it is, but for bytes outside
// printable ASCII, which become \xNN (a terminal obeys some of them), and what is longer than any
// honest sentence, which is cut.
std::string Printable(std::string_view sentence);

// Text that may hold what a file or a user wrote, for a terminal or a log: as it is, but for what they
// obey: controls and marks that turn the direction of writing, whose bytes become \xNN.
std::string Harmless(std::string_view text);

}  // namespace outrider
