#include "adapters/exits/exits_training.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

namespace outrider {

Loss ExitsLoss(const ExitAdapters& adapters, const FrozenHead& head, ExitTeacher& teacher,
               const ExitLossOptions& options) {
  return [&adapters, &head, &teacher, options](const RowBatch& batch) {
    const ExitRows rows = teacher.Read(batch);
    at::Tensor sum = at::zeros({}, at::kFloat);
    for (size_t exit = 0; exit < adapters.exit_count(); ++exit) {
      const at::Tensor logits = head.Apply(adapters.Adapt(exit, rows.hidden[exit]));
      sum = sum + ExitLoss(rows.logits, logits, rows.candidates, options);
    }
    return sum / static_cast<double>(adapters.exit_count());
  };
}

std::vector<ExitScore> ScoreExits(const ExitAdapters& adapters, const FrozenHead& head,
                                  ExitTeacher& teacher, TokenRows& rows) {
  const at::NoGradGuard no_grad;
  std::vector<ExitScore> scores;
  for (size_t exit = 0; exit < adapters.exit_count(); ++exit) {
    scores.push_back({adapters.layer_of(exit), 0, 0});
  }
  int64_t count = 0;
  for (uint64_t row = 0; row < rows.row_count(); ++row) {
    const ExitRows read = teacher.Read(ReadRows(rows, row, 1).To(adapters.device()));
    count += read.logits.size(0);
    for (size_t exit = 0; exit < adapters.exit_count(); ++exit) {
      const at::Tensor logits = head.Apply(adapters.Adapt(exit, read.hidden[exit]));
      scores[exit].divergence += Divergence(read.logits, logits, 1).sum().item<double>();
      scores[exit].match_rate += logits.argmax(-1).eq(read.logits.argmax(-1)).sum().item<double>();
    }
  }
  for (ExitScore& score : scores) {
    score.divergence /= static_cast<double>(count);
    score.match_rate /= static_cast<double>(count);
  }
  return scores;
}

}  // namespace outrider
