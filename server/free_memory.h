// What the heap keeps after a flood. Thousands of calls that begin and end at once leave holes behind,
// between what has stayed: allocators keep such pages, so the process would for good have as much memory
// as in its worst moment, and a little more after each.
//
//   FreeMemory free_memory;
//   free_memory.LookNow();    // every second
//
// Threads: one.
#pragma once

#include <cstdint>

namespace outrider {

class FreeMemory {
 public:
  // To look for free pages takes the heap's locks for a millisecond or some: only where the process has
  // grown by this since it looked last.
  static constexpr uint64_t kWorthwhile = 8 << 20;

  // Gives free pages back to the kernel, if there may be many.
  void LookNow();

 private:
  uint64_t resident_before_ = 0;
};

}  // namespace outrider
