#include "server/free_memory.h"

#include <malloc.h>

#include <algorithm>

#include "common/base/process_memory.h"

namespace outrider {

void FreeMemory::LookNow() {
  const uint64_t resident = ResidentBytes();
  if (resident < resident_before_ + kWorthwhile) {
    resident_before_ = std::min(resident, resident_before_);
    return;
  }
#ifdef __GLIBC__  // others give pages back by themselves
  malloc_trim(0);
#endif
  resident_before_ = ResidentBytes();
}

}  // namespace outrider
