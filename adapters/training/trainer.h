// Takes a model through its steps: rows in, gradients, clipping, AdamW.
//
//   Trainer trainer(model.parameters(), model.device(), rows, LanguageLoss(model), options);
//   while (trainer.state().step < options.schedule.steps) {
//     OUTRIDER_RETURN_IF_ERROR(trainer.Step());
//   }
//
// On the CPU a step is a function of parameters, state, rows, options and the number of threads,
// bit for bit: a run that was saved and loaded goes on as if it had never ended.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/text/token_rows.h"
#include "adapters/training/adamw.h"
#include "adapters/training/checkpoint.h"
#include "adapters/training/schedule.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

// Rows that go through the model together, [B, T], int64.
struct RowBatch {
  at::Tensor tokens;
  at::Tensor targets;  // TokenRows::kNoTarget where there is none
  at::Tensor documents;
};

RowBatch ReadRows(TokenRows& rows, uint64_t first, uint64_t count);

// In nats, summed over the targets. It holds on to the models it needs; the trainer knows none.
using Loss = std::function<at::Tensor(const RowBatch& batch)>;

// -log p(target), for models that learn from text itself. `model` outlives it.
Loss LanguageLoss(const TorchTransformer& model);

struct TrainerOptions {
  Schedule schedule;
  AdamWOptions adamw;
  uint32_t rows_per_step = 1;
  double gradient_norm_max = 1;
  bool bfloat16_products = false;  // where the hardware has them
};

class Trainer {
 public:
  // What is trained lies on `device`, is asked for gradients, and outlives the trainer as the rows
  // do.
  Trainer(std::span<NamedParameter> parameters, at::Device device, TokenRows& rows, Loss loss,
          const TrainerOptions& options);

  // FailedPrecondition when the loss is no longer a number: the parameters are then as they were.
  absl::Status Step();

  // The mean loss of `row_count` rows of other text, the same ones whenever it is asked.
  absl::StatusOr<float> Evaluate(TokenRows& rows, uint32_t row_count) const;

  const TrainingState& state() const { return state_; }
  TrainingState& mutable_state() { return state_; }

 private:
  RowBatch Read(TokenRows& rows, uint64_t first, uint64_t count) const;
  uint64_t RowsPerPass(const TokenRows& rows) const;
  double ClipGradients();

  const std::span<NamedParameter> parameters_;
  const at::Device device_;
  TokenRows& rows_;
  const Loss loss_;
  const TrainerOptions options_;
  TrainingState state_;
};

}  // namespace outrider
