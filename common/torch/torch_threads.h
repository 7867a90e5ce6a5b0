// How many threads libtorch computes with, in this whole process: its own, and those of the BLAS it
// multiplies with when that is OpenBLAS, which otherwise takes a thread for every core.
#pragma once

#include <cstdint>

namespace outrider {

void SetTorchThreads(uint32_t thread_count);

}  // namespace outrider
