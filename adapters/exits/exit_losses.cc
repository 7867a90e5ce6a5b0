#include "adapters/exits/exit_losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>

namespace outrider {

at::Tensor Divergence(const at::Tensor& target, const at::Tensor& exit, double temperature) {
  const at::Tensor log_p = at::log_softmax(target / temperature, -1);
  const at::Tensor log_q = at::log_softmax(exit / temperature, -1);
  return (log_p.exp() * (log_p - log_q)).sum(-1);
}

at::Tensor ExitLoss(const at::Tensor& target, const at::Tensor& exit, const at::Tensor& candidates,
                    const ExitLossOptions& options) {
  const double t = options.temperature, c = options.candidate_temperature;
  const at::Tensor whole = Divergence(target, exit, t).sum() * (t * t);
  if (options.candidate_weight == 0) return whole;
  const at::Tensor among =
      Divergence(target.gather(-1, candidates), exit.gather(-1, candidates), c).sum() * (c * c);
  return whole + among * options.candidate_weight;
}

}  // namespace outrider
