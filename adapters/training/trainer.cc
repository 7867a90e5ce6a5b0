#include "adapters/training/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
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

// One where there is none, for what is divided by it.
double CountTargets(std::span<const RowBatch> passes) {
  int64_t count = 0;
  for (const RowBatch& pass : passes) {
    count += pass.targets.ne(TokenRows::kNoTarget).sum().item<int64_t>();
  }
  return static_cast<double>(std::max<int64_t>(1, count));
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

RowBatch RowBatch::To(const at::Device& device) const {
  return {tokens.to(device), targets.to(device), documents.to(device)};
}

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

template <typename Body>
void Trainer::SideBySide(size_t count, const Body& body) const {
  if (options_.pool != nullptr) return options_.pool->ParallelFor(count, body);
  for (size_t i = 0; i < count; ++i) body(i);
}

absl::Status Trainer::Step() {
  return CatchTorch("training", [&]() -> absl::Status {
    const std::vector<RowBatch> passes =
        ReadPasses(rows_, state_.step * options_.rows_per_step, options_.rows_per_step);
    const double target_count = CountTargets(passes);
    std::vector<Lesson> lessons(passes.size());
    SideBySide(passes.size(), [&](size_t i) { lessons[i] = Learn(passes[i], target_count); });
    double loss = 0;
    for (const Lesson& lesson : lessons) {
      OUTRIDER_RETURN_IF_ERROR(lesson.status);
      loss += lesson.loss;
    }
    AddUp(lessons);
    const std::span<const at::Tensor> gradients = lessons[0].gradients;
    const double norm = NormOf(gradients);
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      return FailedPrecondition("the loss of step ", state_.step,
                                " is no number any more; train with a lower --learning-rate");
    }
    Descend(gradients, std::min(1.0, options_.gradient_norm_max / norm));
    state_.losses.push_back(static_cast<float>(loss));
    state_.gradient_norms.push_back(static_cast<float>(norm));
    return absl::OkStatus();
  });
}

// The share of a pass in the mean loss of all targets.
Trainer::Lesson Trainer::Learn(const RowBatch& pass, double target_count) const {
  Lesson lesson;
  lesson.status = CatchTorch("training", [&]() -> absl::Status {
    at::Tensor loss;
    {
      const Bfloat16Products products(options_.bfloat16_products, device_);
      loss = loss_(pass).div(target_count);
    }
    lesson.loss = loss.item<double>();
    std::vector<at::Tensor> parameters;
    for (const NamedParameter& parameter : parameters_) parameters.push_back(parameter.value);
    lesson.gradients = torch::autograd::grad({loss}, parameters);
    return absl::OkStatus();
  });
  return lesson;
}

// The gradients of all passes, in their order, into the first one's.
void Trainer::AddUp(std::vector<Lesson>& lessons) const {
  SideBySide(parameters_.size(), [&](size_t i) {
    const at::NoGradGuard no_grad;
    for (size_t pass = 1; pass < lessons.size(); ++pass) {
      lessons[0].gradients[i].add_(lessons[pass].gradients[i]);
    }
  });
}

// Of all of them as one vector.
double Trainer::NormOf(std::span<const at::Tensor> gradients) const {
  std::vector<double> squares(gradients.size());
  SideBySide(gradients.size(), [&](size_t i) {
    const double norm = gradients[i].norm().item<double>();
    squares[i] = norm * norm;
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

void Trainer::Descend(std::span<const at::Tensor> gradients, double scale) {
  const double rate = options_.schedule.RateAt(state_.step);
  ++state_.step;
  SideBySide(gradients.size(), [&](size_t i) {
    const at::NoGradGuard no_grad;
    if (scale < 1) gradients[i].mul_(scale);
    AdamWStep(options_.adamw, rate, state_.step, gradients[i], state_.moments[i],
              parameters_[i].value);
  });
}

absl::StatusOr<float> Trainer::Evaluate(TokenRows& rows, uint32_t row_count) const {
  return CatchTorch("evaluation", [&]() -> absl::StatusOr<float> {
    const std::vector<RowBatch> passes =
        ReadPasses(rows, 0, std::min<uint64_t>(row_count, rows.row_count()));
    const double target_count = CountTargets(passes);
    std::vector<absl::StatusOr<double>> losses(passes.size(), 0.0);
    SideBySide(passes.size(), [&](size_t i) {
      losses[i] = CatchTorch("evaluation", [&]() -> absl::StatusOr<double> {
        const at::NoGradGuard no_grad;
        const Bfloat16Products products(options_.bfloat16_products, device_);
        return loss_(passes[i]).item<double>();
      });
    });
    double sum = 0;
    for (const absl::StatusOr<double>& loss : losses) {
      OUTRIDER_RETURN_IF_ERROR(loss.status());
      sum += *loss;
    }
    return static_cast<float>(sum / target_count);
  });
}

std::vector<RowBatch> Trainer::ReadPasses(TokenRows& rows, uint64_t first, uint64_t count) const {
  const uint64_t rows_per_pass = RowsPerPass(rows);
  std::vector<RowBatch> passes;
  for (uint64_t row = 0; row < count; row += rows_per_pass) {
    const uint64_t pass_count = std::min(rows_per_pass, count - row);
    passes.push_back(ReadRows(rows, first + row, pass_count).To(device_));
  }
  return passes;
}

uint64_t Trainer::RowsPerPass(const TokenRows& rows) const {
  if (!device_.is_cpu()) return options_.rows_per_step;
  return std::max<uint64_t>(1, kTokensPerCpuPass / rows.row_length());
}

}  // namespace outrider
