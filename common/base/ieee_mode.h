// Arithmetic as IEEE 754 defines it, whatever the thread was set to.
//
//   const ScopedIeeeMode ieee_mode;   // to nearest, subnormals honoured, until the scope ends
//
// A library loaded into the process, or the program that embeds us, may have told the processor to
// flush subnormal numbers to zero or to round another way. Both change results, so whatever must
// give the same bits everywhere runs inside a scope of these: the loops of a ThreadPool do, on
// every thread that takes part.
//
// The scope covers calls. The compiler knows nothing of modes: GCC 12 at -O2 has been seen to move
// a multiplication that followed the constructor behind the destructor, where its result was only
// needed. So a function that holds a scope leaves the arithmetic to functions of other files, or to
// ones that store their results where the next such call reads them.
//
// Cost: reading the mode, some 5 ns; writing it only where it differs. Modes belong to threads: the
// scope must end on the thread it began on. What exceptions trap is left as it was.
#pragma once

#include <cstdint>

namespace outrider {

class ScopedIeeeMode {
 public:
  ScopedIeeeMode();
  ~ScopedIeeeMode();
  ScopedIeeeMode(const ScopedIeeeMode&) = delete;
  ScopedIeeeMode& operator=(const ScopedIeeeMode&) = delete;

 private:
  const uint64_t before_;  // the control register
};

}  // namespace outrider
