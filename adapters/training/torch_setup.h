// libtorch as a trainer wants it.
#pragma once

#include <c10/core/Device.h>

namespace outrider {

// Once, before the first tensor. Every product is computed by the thread that asks for it: a
// trainer's threads take passes of their own (trainer.h), so that none waits for another within
// one.
void PrepareTorch();

// The GPU that libtorch can use, or this processor.
at::Device TrainingDevice();

// Whether matrix products of the processor run on OpenBLAS. On the reference BLAS, which libtorch
// falls back to, they take ten times as long.
bool HasOpenBlas();

// Whether `device` multiplies bfloat16 matrices faster than float32 ones. Of GPUs all since Ampere
// do, and no other is looked for.
bool HasBfloat16Products(const at::Device& device);

}  // namespace outrider
