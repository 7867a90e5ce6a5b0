#include "common/base/random_bits.h"

#include <sys/random.h>

#include "common/base/check.h"

namespace outrider {

uint64_t RandomBits() {
  uint64_t bits = 0;
  // Up to 256 bytes come whole, once the kernel has been seeded, and it waits for that.
  OUTRIDER_CHECK(getrandom(&bits, sizeof(bits), 0) == sizeof(bits), "the kernel gives random bits");
  return bits;
}

}  // namespace outrider
