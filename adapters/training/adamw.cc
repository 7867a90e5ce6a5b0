#include "adapters/training/adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

namespace outrider {

AdamWMoments NoMoments(const at::Tensor& parameter) {
  return {at::zeros_like(parameter), at::zeros_like(parameter)};
}

void AdamWStep(const AdamWOptions& options, double rate, uint64_t step, const at::Tensor& gradient,
               AdamWMoments& moments, at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(step);
  const double first_share = 1 - std::pow(options.beta1, t);
  const double second_share = 1 - std::pow(options.beta2, t);
  moments.first.mul_(options.beta1).add_(gradient, 1 - options.beta1);
  moments.second.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
  if (parameter.dim() >= 2) parameter.mul_(1 - rate * options.decay);
  const at::Tensor deviation =
      moments.second.sqrt().div_(std::sqrt(second_share)).add_(options.epsilon);
  parameter.addcdiv_(moments.first, deviation, -rate / first_share);
}

}  // namespace outrider
