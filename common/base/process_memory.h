// What of memory this process has, as the kernel counts it: pages of its own and those of files that
// it has mapped.
#pragma once

#include <cstdint>

namespace outrider {

// At present, and at most since it began. 0: this kernel does not say.
uint64_t ResidentBytes();
uint64_t PeakResidentBytes();

}  // namespace outrider
