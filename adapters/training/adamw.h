// AdamW (Loshchilov and Hutter, 2019): Adam whose weight decay is no part of the gradient.
//
//   m = b1 m + (1 - b1) g          v = b2 v + (1 - b2) g g
//   p = p - rate * decay * p - rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
//
// at step t = 1, 2, ... Only matrices decay: norms and biases have no reason to be small.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace outrider {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;
};

struct AdamWMoments {
  at::Tensor first;
  at::Tensor second;
};

// Zeros of the parameter's shape, where it lies.
AdamWMoments NoMoments(const at::Tensor& parameter);

// One step of one parameter, in place. `step` counts from 1.
void AdamWStep(const AdamWOptions& options, double rate, uint64_t step, const at::Tensor& gradient,
               AdamWMoments& moments, at::Tensor& parameter);

}  // namespace outrider
