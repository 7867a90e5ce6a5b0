#include "common/base/process_io.h"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace outrider {
namespace {

// The number after `name` on a line of its own, separated by spaces or a colon.
std::optional<uint64_t> NumberIn(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const size_t digits = line.find_first_not_of(": ", name.size());
    uint64_t number = 0;
    if (digits == std::string::npos || digits == name.size()) continue;
    const char* const end = line.data() + line.size();
    if (std::from_chars(line.data() + digits, end, number).ec == std::errc()) return number;
  }
  return std::nullopt;
}

// Where the memory of this process's group is accounted: of the first version of control groups, or
// of the second, which has one line with no controllers named.
std::string MemoryStatPath() {
  std::ifstream groups("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers == "memory") return "/sys/fs/cgroup/memory" + group + "/memory.stat";
    if (controllers.empty()) unified = "/sys/fs/cgroup" + group + "/memory.stat";
  }
  return unified;
}

}  // namespace

ProcessIo ReadProcessIo() {
  ProcessIo io;
  io.written_bytes = NumberIn("/proc/self/io", "write_bytes");
  const std::string stat = MemoryStatPath();
  for (const char* const name : {"workingset_refault_anon", "workingset_refault_file"}) {
    const std::optional<uint64_t> pages = NumberIn(stat, name);
    if (pages) io.refaults = io.refaults.value_or(0) + *pages;
  }
  return io;
}

}  // namespace outrider
