// Bits that nobody can guess, from the kernel: names and secrets of sessions are made of them.
#pragma once

#include <cstdint>

namespace outrider {

// Any thread.
uint64_t RandomBits();

}  // namespace outrider
