#include "common/base/process_memory.h"

#include <fstream>
#include <string>
#include <string_view>

namespace outrider {
namespace {

uint64_t StatusBytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size())) * 1024;
  }
  return 0;
}

}  // namespace

uint64_t ResidentBytes() {
  return StatusBytes("VmRSS:");
}

uint64_t PeakResidentBytes() {
  return StatusBytes("VmHWM:");
}

}  // namespace outrider
