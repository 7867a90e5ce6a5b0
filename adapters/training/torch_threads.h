// How many threads libtorch works with: its own, and those of the BLAS it multiplies with, which
// keeps a count of its own.
#pragma once

namespace outrider {

// Once, before the first tensor. Results depend on it in the last bits.
void SetTorchThreads(int count);

// Whether matrix products run on OpenBLAS. On the reference BLAS, which libtorch falls back to,
// they take ten times as long.
bool HasOpenBlas();

// Whether this processor multiplies bfloat16 matrices faster than float32 ones.
bool HasBfloat16Products();

}  // namespace outrider
