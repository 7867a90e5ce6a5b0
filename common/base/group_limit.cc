#include "common/base/group_limit.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace outrider {
namespace {

// What kernels write for "no limit" is as large as memory cannot be.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

void Lower(std::optional<uint64_t>& limit, const std::string& path) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  if (!(file >> bytes) || bytes >= kNoLimit) return;  // "max" is no number
  limit = std::min(limit.value_or(bytes), bytes);
}

}  // namespace

// Above which a group is held back, and above which somebody in it is killed: whoever stays below the first
// never meets the second.
std::optional<uint64_t> MemoryLimitOfGroup(const std::string& root, const std::string& groups) {
  std::optional<uint64_t> limit;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const bool is_first_version = controllers == "memory";
    if (!is_first_version && !controllers.empty()) continue;
    const std::string below = root + (is_first_version ? "/memory" : "");
    for (std::string group = line.substr(second + 1);; group.resize(group.rfind('/'))) {
      for (const char* const name : {"/memory.high", "/memory.max", "/memory.soft_limit_in_bytes",
                                     "/memory.limit_in_bytes"}) {
        Lower(limit, below + (group == "/" ? "" : group) + name);
      }
      if (group.empty() || group.rfind('/') == std::string::npos) break;
    }
  }
  return limit;
}

}  // namespace outrider
