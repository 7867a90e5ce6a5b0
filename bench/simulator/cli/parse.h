// Numbers and lists as they are written in flags and traces.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace outrider {

// Nothing unless all of `text` is one finite number.
std::optional<double> ParseNumber(std::string_view text);

// "a,b,,c" at ',' is a, b, an empty one, c. An empty text is one empty part.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

}  // namespace outrider
