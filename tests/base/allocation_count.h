// Counts what this test program takes from the heap, to show that a steady state takes nothing.
#pragma once

#include <cstdint>

namespace outrider {

// Calls of operator new so far, of every form and on every thread.
uint64_t AllocationCount();

}  // namespace outrider
