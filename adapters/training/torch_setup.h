// libtorch as a trainer wants it.
#pragma once

namespace outrider {

// Once, before the first tensor. Every product is computed by the thread that asks for it: a
// trainer's threads take passes of their own (trainer.h), so that none waits for another within
// one.
void PrepareTorch();

// Whether matrix products run on OpenBLAS. On the reference BLAS, which libtorch falls back to,
// they take ten times as long.
bool HasOpenBlas();

// Whether this processor multiplies bfloat16 matrices faster than float32 ones.
bool HasBfloat16Products();

}  // namespace outrider
