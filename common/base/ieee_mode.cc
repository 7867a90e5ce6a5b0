#include "common/base/ieee_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "say here how this processor rounds to nearest and honours subnormal numbers"
#endif

namespace outrider {
namespace {

#if defined(__x86_64__)

// MXCSR: subnormal operands count as zero (bit 6), rounding (13, 14), subnormal results become zero
// (15).
constexpr uint64_t kModeBits = 1u << 6 | 3u << 13 | 1u << 15;

uint64_t ReadControl() {
  return _mm_getcsr();
}

void WriteControl(uint64_t control) {
  _mm_setcsr(static_cast<unsigned>(control));
}

#else

// FPCR: flush inputs (bit 0), alternate handling (1), flush half precision (19), rounding (22, 23),
// flush all others (24).
constexpr uint64_t kModeBits = 1u << 0 | 1u << 1 | 1u << 19 | 3u << 22 | 1u << 24;

uint64_t ReadControl() {
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}

void WriteControl(uint64_t control) {
  asm volatile("msr fpcr, %0" : : "r"(control));
}

#endif

}  // namespace

ScopedIeeeMode::ScopedIeeeMode() : before_(ReadControl()) {
  if ((before_ & kModeBits) != 0) WriteControl(before_ & ~kModeBits);
}

ScopedIeeeMode::~ScopedIeeeMode() {
  if ((before_ & kModeBits) != 0) WriteControl(before_);
}

}  // namespace outrider
