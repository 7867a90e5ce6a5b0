// What the machine grants this process of memory: the least limit of its control group and of those that
// this is in. It may change while the process runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace outrider {

// Nothing: there is none, or nobody says. Below `root` lie the kernel's files; `groups` names the groups
// of this process.
std::optional<uint64_t> MemoryLimitOfGroup(const std::string& root = "/sys/fs/cgroup",
                                           const std::string& groups = "/proc/self/cgroup");

}  // namespace outrider
