#include "adapters/training/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "common/base/status.h"
#include "common/torch/torch_status.h"

namespace outrider {
namespace {

// On the CPU so many tokens go through the model together that a layer's activations stay in the
// caches; a GPU takes a step's rows at once.
constexpr uint64_t kTokensPerCpuPass = 1024;

std::span<int64_t> Row(at::Tensor& tensor, int64_t row) {
  const int64_t length = tensor.size(1);
  return {tensor.data_ptr<int64_t>() + row * length, static_cast<size_t>(length)};
}

// Matrix products in bfloat16 while it lives.
class Bfloat16Products {
 public:
  Bfloat16Products(bool wanted, const at::Device& device)
      : wanted_(wanted), on_cpu_(device.is_cpu()) {
    if (!wanted_) return;
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    Enable(true);
    at::autocast::increment_nesting();
  }
  ~Bfloat16Products() {
    if (!wanted_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    Enable(false);
  }
  Bfloat16Products(const Bfloat16Products&) = delete;
  Bfloat16Products& operator=(const Bfloat16Products&) = delete;

 private:
  void Enable(bool enabled) const {
    on_cpu_ ? at::autocast::set_cpu_enabled(enabled) : at::autocast::set_enabled(enabled);
  }

  const bool wanted_;
  const bool on_cpu_;
};

}  // namespace

RowBatch ReadRows(TokenRows& rows, uint64_t first, uint64_t count) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(count),
                                      static_cast<int64_t>(rows.row_length())};
  RowBatch batch{at::empty(shape, at::kLong), at::empty(shape, at::kLong),
                 at::empty(shape, at::kLong)};
  for (int64_t row = 0; row < shape[0]; ++row) {
    rows.Get(first + static_cast<uint64_t>(row), Row(batch.tokens, row), Row(batch.targets, row),
             Row(batch.documents, row));
  }
  return batch;
}

Loss LanguageLoss(const TorchTransformer& model) {
  return [&model](const RowBatch& batch) {
    TorchForwardOptions options;
    options.documents = batch.documents;
    const at::Tensor logits = model.Forward(batch.tokens, options).logits;
    return at::cross_entropy_loss(logits.flatten(0, 1).to(at::kFloat), batch.targets.flatten(), {},
                                  at::Reduction::Sum, TokenRows::kNoTarget);
  };
}

Trainer::Trainer(std::span<NamedParameter> parameters, at::Device device, TokenRows& rows,
                 Loss loss, const TrainerOptions& options)
    : parameters_(parameters),
      device_(device),
      rows_(rows),
      loss_(std::move(loss)),
      options_(options) {
  for (NamedParameter& parameter : parameters_) {
    parameter.value.requires_grad_(true);
    state_.moments.push_back(NoMoments(parameter.value.detach()));
  }
}

absl::Status Trainer::Step() {
  return CatchTorch("training", [&]() -> absl::Status {
    const uint64_t row_count = options_.rows_per_step;
    const uint64_t first = state_.step * row_count;
    std::vector<RowBatch> passes;
    int64_t target_count = 0;
    for (uint64_t row = 0; row < row_count; row += RowsPerPass(rows_)) {
      passes.push_back(Read(rows_, first + row, std::min(RowsPerPass(rows_), row_count - row)));
      target_count += passes.back().targets.ne(TokenRows::kNoTarget).sum().item<int64_t>();
    }
    double loss_sum = 0;
    for (const RowBatch& pass : passes) {
      at::Tensor loss;
      {
        const Bfloat16Products products(options_.bfloat16_products, device_);
        loss = loss_(pass);
      }
      loss_sum += loss.item<double>();
      loss.div(static_cast<double>(std::max<int64_t>(1, target_count))).backward();
    }
    const double loss = loss_sum / static_cast<double>(std::max<int64_t>(1, target_count));
    const double norm = ClipGradients();
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      return FailedPrecondition("the loss of step ", state_.step,
                                " is no number any more; train with a lower --learning-rate");
    }
    const double rate = options_.schedule.RateAt(state_.step);
    ++state_.step;
    for (size_t i = 0; i < state_.moments.size(); ++i) {
      at::Tensor& parameter = parameters_[i].value;
      AdamWStep(options_.adamw, rate, state_.step, parameter.grad(), state_.moments[i], parameter);
      parameter.mutable_grad().reset();
    }
    state_.losses.push_back(static_cast<float>(loss));
    state_.gradient_norms.push_back(static_cast<float>(norm));
    return absl::OkStatus();
  });
}

absl::StatusOr<float> Trainer::Evaluate(TokenRows& rows, uint32_t row_count) const {
  return CatchTorch("evaluation", [&]() -> absl::StatusOr<float> {
    const at::NoGradGuard no_grad;
    const Bfloat16Products products(options_.bfloat16_products, device_);
    const uint64_t count = std::min<uint64_t>(row_count, rows.row_count());
    double loss_sum = 0;
    int64_t target_count = 0;
    for (uint64_t row = 0; row < count; row += RowsPerPass(rows)) {
      const RowBatch pass = Read(rows, row, std::min(RowsPerPass(rows), count - row));
      loss_sum += loss_(pass).item<double>();
      target_count += pass.targets.ne(TokenRows::kNoTarget).sum().item<int64_t>();
    }
    return static_cast<float>(loss_sum / static_cast<double>(std::max<int64_t>(1, target_count)));
  });
}

uint64_t Trainer::RowsPerPass(const TokenRows& rows) const {
  if (!device_.is_cpu()) return options_.rows_per_step;
  return std::max<uint64_t>(1, kTokensPerCpuPass / rows.row_length());
}

RowBatch Trainer::Read(TokenRows& rows, uint64_t first, uint64_t count) const {
  RowBatch batch = ReadRows(rows, first, count);
  for (at::Tensor* tensor : {&batch.tokens, &batch.targets, &batch.documents}) {
    *tensor = tensor->to(device_);
  }
  return batch;
}

// To options_.gradient_norm_max at most, all parameters together. Returns what it was.
double Trainer::ClipGradients() {
  double square_sum = 0;
  for (const NamedParameter& parameter : parameters_) {
    const double norm = parameter.value.grad().norm().item<double>();
    square_sum += norm * norm;
  }
  const double norm = std::sqrt(square_sum);
  if (norm > options_.gradient_norm_max) {
    for (const NamedParameter& parameter : parameters_) {
      parameter.value.grad().mul_(options_.gradient_norm_max / norm);
    }
  }
  return norm;
}

}  // namespace outrider
