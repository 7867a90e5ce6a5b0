#include "adapters/training/distillation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>

#include <cstdint>

#include "common/torch/torch_status.h"

namespace outrider {
namespace {

// [tokens with a target, vocabulary], float32 whatever the products were.
at::Tensor LogProbabilities(const TorchTransformer& model, const RowBatch& batch,
                            const at::Tensor& asked) {
  TorchForwardOptions options;
  options.documents = batch.documents;
  const at::Tensor logits = model.Forward(batch.tokens, options).logits.flatten(0, 1);
  return at::log_softmax(logits.index({asked}).to(at::kFloat), -1);
}

at::Tensor Asked(const RowBatch& batch) {
  return batch.targets.flatten().ne(TokenRows::kNoTarget);
}

}  // namespace

Loss DistillationLoss(const TorchTransformer& draft, const TorchTransformer& target) {
  return [&draft, &target](const RowBatch& batch) {
    const at::Tensor asked = Asked(batch);
    at::Tensor wanted;
    {
      const at::NoGradGuard no_grad;
      wanted = LogProbabilities(target, batch, asked);
    }
    const at::Tensor said = LogProbabilities(draft, batch, asked);
    return (wanted.exp() * (wanted - said)).sum();
  };
}

absl::StatusOr<double> FirstChoiceAgreement(const TorchTransformer& draft,
                                            const TorchTransformer& target, TokenRows& rows) {
  return CatchTorch("agreement", [&]() -> absl::StatusOr<double> {
    const at::NoGradGuard no_grad;
    int64_t agreed = 0, all = 0;
    for (uint64_t row = 0; row < rows.row_count(); ++row) {
      const RowBatch batch = ReadRows(rows, row, 1);
      const at::Tensor asked = Asked(batch);
      const at::Tensor wanted = LogProbabilities(target, batch, asked).argmax(-1);
      const at::Tensor said = LogProbabilities(draft, batch, asked).argmax(-1);
      agreed += wanted.eq(said).sum().item<int64_t>();
      all += wanted.numel();
    }
    return all == 0 ? 0.0 : static_cast<double>(agreed) / static_cast<double>(all);
  });
}

}  // namespace outrider
