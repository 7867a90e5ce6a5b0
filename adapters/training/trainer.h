// Takes a model through its steps: rows in, gradients, clipping, AdamW.
//
//   Trainer trainer(model.parameters(), model.device(), rows, LanguageLoss(model), options);
//   while (trainer.state().step < options.schedule.steps) {
//     OUTRIDER_RETURN_IF_ERROR(trainer.Step());
//   }
//
// On the CPU the rows of a step go through the model a few at a time, and such passes side by side,
// one a thread. Their gradients are added up in the order of the rows, so that a step is a function
// of parameters, state, rows and options, bit for bit, whatever the number of threads: a run that
// was saved and loaded goes on as if it had never ended.
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
#include "common/base/thread_pool.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

// Rows that go through the model together, [B, T], int64.
struct RowBatch {
  at::Tensor tokens;
  at::Tensor targets;  // TokenRows::kNoTarget where there is none
  at::Tensor documents;

  RowBatch To(const at::Device& device) const;
};

RowBatch ReadRows(TokenRows& rows, uint64_t first, uint64_t count);

// In nats, summed over the targets. It holds on to the models it needs; the trainer knows none. It
// is called by several threads at a time where the trainer has them.
using Loss = std::function<at::Tensor(const RowBatch& batch)>;

// -log p(target), for models that learn from text itself. `model` outlives it.
Loss LanguageLoss(const TorchTransformer& model);

struct TrainerOptions {
  Schedule schedule;
  AdamWOptions adamw;
  uint32_t rows_per_step = 1;
  double gradient_norm_max = 1;
  bool bfloat16_products = false;  // where the hardware has them
  ThreadPool* pool = nullptr;      // for passes side by side; null: one after the other
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
  // What one pass says about the parameters.
  struct Lesson {
    absl::Status status;
    double loss = 0;
    std::vector<at::Tensor> gradients;  // by parameter
  };

  std::vector<RowBatch> ReadPasses(TokenRows& rows, uint64_t first, uint64_t count) const;
  uint64_t RowsPerPass(const TokenRows& rows) const;
  Lesson Learn(const RowBatch& pass, double target_count) const;
  void AddUp(std::vector<Lesson>& lessons) const;
  double NormOf(std::span<const at::Tensor> gradients) const;
  void Descend(std::span<const at::Tensor> gradients, double scale);

  // body(i) for each i below `count`, on all threads.
  template <typename Body>
  void SideBySide(size_t count, const Body& body) const;

  const std::span<NamedParameter> parameters_;
  const at::Device device_;
  TokenRows& rows_;
  const Loss loss_;
  const TrainerOptions options_;
  TrainingState state_;
};

}  // namespace outrider
