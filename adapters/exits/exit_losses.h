// How far an exit is from the target, and so what its training makes small.
//
// The distance is LEVER's (section 4.3, equations 8 to 10), with p the target's final distribution
// and q the exit's:
//
//   t^2 KL(softmax(p / t) || softmax(q / t))                over the whole vocabulary
//   + weight c^2 KL(softmax(p / c) || softmax(q / c))       over a row's candidates alone
//
// The first brings the exit near the target; the second makes it rank what a draft proposes, which
// is all that hints and pruning ask of it.
#pragma once

#include <ATen/core/Tensor.h>

namespace outrider {

struct ExitLossOptions {
  double temperature = 1;            // t
  double candidate_weight = 0.5;     // 0: the first alone
  double candidate_temperature = 1;  // c
};

// KL(softmax(target / temperature) || softmax(exit / temperature)) of each row: [rows, columns] to
// [rows], in nats.
at::Tensor Divergence(const at::Tensor& target, const at::Tensor& exit, double temperature);

// Summed over rows. Logits are [rows, vocabulary]; `candidates`, [rows, count], are token ids.
at::Tensor ExitLoss(const at::Tensor& target, const at::Tensor& exit, const at::Tensor& candidates,
                    const ExitLossOptions& options);

}  // namespace outrider
