// What this process and its machine have done with their disk, as the kernel counts it. Reading
// does not wear flash; writing does, and so does a machine that pushes out what it needs again.
#pragma once

#include <cstdint>
#include <optional>

namespace outrider {

struct ProcessIo {
  // By this process to disks. Nothing: this kernel does not say.
  std::optional<uint64_t> written_bytes;
  // Pages that were pushed out of this process's control group and then wanted again, of files and
  // of memory together. Nothing: there is no group, or it does not say.
  std::optional<uint64_t> refaults;
};

ProcessIo ReadProcessIo();

}  // namespace outrider
