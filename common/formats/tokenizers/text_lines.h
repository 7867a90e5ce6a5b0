// The lines of a text file, one by one.
#pragma once

#include <algorithm>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/status.h"

namespace outrider {

// Calls visit(line) for each line that is not empty, without its end (\n or \r\n), until one fails.
template <typename Visit>
absl::Status ForEachLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) OUTRIDER_RETURN_IF_ERROR(visit(line));
  }
  return absl::OkStatus();
}

}  // namespace outrider
