#include "adapters/training/distillation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/torch/fused.h"
#include "common/torch/torch_status.h"

namespace outrider {
namespace {

// The target's last hidden states of rows it has seen: an epoch's layers are computed once, and all
// that later ones pay for is the output matrix. What does not fit into memory is computed again.
// Rows go through the layers alone, so that their bits do not depend on when that is.
class KeptStates {
 public:
  explicit KeptStates(const TorchTransformer& model) : model_(model) {}

  // [B, T, embedding]
  at::Tensor Of(const RowBatch& batch) {
    std::vector<at::Tensor> states;
    for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
      states.push_back(OfRow(batch.tokens.narrow(0, row, 1), batch.documents.narrow(0, row, 1)));
    }
    return at::cat(states);
  }

 private:
  using Row = std::vector<int64_t>;  // its tokens and documents

  static constexpr size_t kBytesMax = size_t{4} << 30;

  at::Tensor OfRow(const at::Tensor& tokens, const at::Tensor& documents) {
    const at::Tensor both = at::cat({tokens.flatten(), documents.flatten()}).cpu();
    const Row row(both.data_ptr<int64_t>(), both.data_ptr<int64_t>() + both.numel());
    {
      const std::scoped_lock lock(mutex_);
      const auto kept = kept_.find(row);
      if (kept != kept_.end()) return kept->second;
    }
    TorchForwardOptions options;
    options.documents = documents;
    options.hidden_layers = {model_.spec().layer_count() - 1};
    const at::Tensor states = model_.Forward(tokens, options).hidden[0];
    const std::scoped_lock lock(mutex_);
    if (bytes_ + states.nbytes() <= kBytesMax && kept_.emplace(row, states).second) {
      bytes_ += states.nbytes();
    }
    return states;
  }

  const TorchTransformer& model_;
  std::mutex mutex_;
  std::map<Row, at::Tensor> kept_;
  size_t bytes_ = 0;
};

// [B * T, vocabulary], float32 whatever the products were.
at::Tensor ByToken(const at::Tensor& logits) {
  return logits.flatten(0, 1).to(at::kFloat);
}

at::Tensor Logits(const TorchTransformer& model, const RowBatch& batch) {
  TorchForwardOptions options;
  options.documents = batch.documents;
  return ByToken(model.Forward(batch.tokens, options).logits);
}

at::Tensor Asked(const RowBatch& batch) {
  return batch.targets.flatten().ne(TokenRows::kNoTarget);
}

// By token.
at::Tensor Divergence(const at::Tensor& wanted, const at::Tensor& said, double temperature) {
  if (CanFuse(said)) return FusedDivergence(wanted, said, temperature);
  const at::Tensor p = at::log_softmax(wanted / temperature, -1);
  return (p.exp() * (p - at::log_softmax(said / temperature, -1))).sum(-1);
}

}  // namespace

Loss DistillationLoss(const TorchTransformer& draft, const TorchTransformer& target,
                      double temperature) {
  return [&draft, &target, temperature,
          states = std::make_shared<KeptStates>(target)](const RowBatch& batch) {
    at::Tensor wanted;
    {
      const at::NoGradGuard no_grad;
      wanted = ByToken(target.Head(states->Of(batch)));
    }
    // Nearly every token is asked: leaving the few out costs less than picking the others.
    return Divergence(wanted, Logits(draft, batch), temperature).mul(Asked(batch)).sum();
  };
}

absl::StatusOr<double> FirstChoiceAgreement(const TorchTransformer& draft,
                                            const TorchTransformer& target, TokenRows& rows) {
  return CatchTorch("agreement", [&]() -> absl::StatusOr<double> {
    const at::NoGradGuard no_grad;
    int64_t agreed = 0, all = 0;
    for (uint64_t row = 0; row < rows.row_count(); ++row) {
      const RowBatch batch = ReadRows(rows, row, 1).To(draft.device());
      const at::Tensor asked = Asked(batch);
      const at::Tensor same = Logits(target, batch).argmax(-1).eq(Logits(draft, batch).argmax(-1));
      agreed += same.logical_and(asked).sum().item<int64_t>();
      all += asked.sum().item<int64_t>();
    }
    return all == 0 ? 0.0 : static_cast<double>(agreed) / static_cast<double>(all);
  });
}

}  // namespace outrider
