#include "common/cuda/gpu_experts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

struct Maxima {
  size_t expert_count = 0, used_count = 0, length = 0;
};

Maxima MaximaOf(const ModelSpec& spec) {
  Maxima maxima;
  for (const LayerSpec& layer : spec.layers) {
    const FeedForwardSpec& shape = layer.feed_forward;
    if (!shape.router) continue;
    maxima.expert_count = std::max(maxima.expert_count, size_t{shape.router->expert_count});
    maxima.used_count = std::max(maxima.used_count, size_t{shape.router->used_count});
    maxima.length = std::max(maxima.length, size_t{shape.length});
  }
  return maxima;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuExperts>> GpuExperts::Create(const ModelSpec& spec,
                                                               uint32_t row_count_max,
                                                               DeviceQueue& queue) {
  std::unique_ptr<GpuExperts> made(new GpuExperts(spec, queue));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory(row_count_max));
  return made;
}

absl::Status GpuExperts::TakeMemory(uint32_t row_count_max) {
  const Maxima maxima = MaximaOf(spec_);
  if (maxima.expert_count == 0) return absl::OkStatus();
  const size_t rows = row_count_max, places = rows * maxima.used_count;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {logits_, rows * maxima.expert_count * sizeof(float)},
      {choices_, places * sizeof(gpu::ExpertChoice)},
      {place_of_, places * sizeof(uint32_t)},
      {row_at_, places * sizeof(uint32_t)},
      {groups_, maxima.expert_count * sizeof(gpu::ExpertRows)},
      {exchanged_, places * spec_.embedding_length * sizeof(float)},
      {gate_, places * maxima.length * sizeof(float)},
      {up_, places * maxima.length * sizeof(float)}};
  const std::string what = Concat("the rows of experts of ", spec_.name);
  for (const auto& [buffer, bytes] : buffers) {
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue_, bytes, what));
  }
  const size_t inputs = std::max(size_t{spec_.embedding_length}, maxima.length);
  OUTRIDER_ASSIGN_OR_RETURN(quants_, RowQuants::Create(queue_, places, inputs, 0, what));
  return absl::OkStatus();
}

void GpuExperts::Apply(const FeedForwardSpec& shape, gpu::Gate gate, const DeviceExperts& weights,
                       const Rows& rows) {
  const uint32_t width = spec_.embedding_length;
  float* const gates = gate_.As<float>();
  float* const ups = up_.As<float>();
  float* const answers = exchanged_.As<float>();
  Route(*shape.router, rows.count);
  const uint32_t* const row_at = row_at_.As<uint32_t>();
  if (gate == gpu::Gate::kGeluTanh) {
    Multiply(rows.x, row_at, width, {{weights.each.up, ups}});
  } else {
    Multiply(rows.x, row_at, width, {{weights.each.gate, gates}, {weights.each.up, ups}});
  }
  const gpu::GateRows gated = {gates, ups, shape.length, gate};
  queue_.Run(gated, place_count_, gated.grid_y());
  Multiply(ups, nullptr, shape.length, {{weights.each.down, answers}});
  const gpu::SumExperts sum = {.answers = answers,
                               .choices = choices_.As<gpu::ExpertChoice>(),
                               .place_of = place_of_.As<uint32_t>(),
                               .shared_answers = rows.shared_answers,
                               .shared_gate = weights.shared_gate,
                               .x = rows.x,
                               .out = rows.out,
                               .used_count = shape.router->used_count,
                               .length = width};
  queue_.Run(sum, rows.count, sum.grid_y());
}

void GpuExperts::Route(const RouterSpec& router, uint32_t row_count) {
  place_count_ = row_count * router.used_count;
  group_count_ = std::min(place_count_, router.expert_count);
  queue_.Run(gpu::ChooseExperts{.logits = logits(),
                                .choices = choices_.As<gpu::ExpertChoice>(),
                                .expert_count = router.expert_count,
                                .used_count = router.used_count,
                                .renormalize = router.renormalize},
             row_count, 1);
  queue_.Run(gpu::GroupRows{.choices = choices_.As<gpu::ExpertChoice>(),
                            .groups = groups_.As<gpu::ExpertRows>(),
                            .place_of = place_of_.As<uint32_t>(),
                            .row_at = row_at_.As<uint32_t>(),
                            .choice_count = place_count_,
                            .used_count = router.used_count,
                            .expert_count = router.expert_count},
             1, 1);
}

// All experts' matrices with their rows of x, which are by place, or by `which` row of it a place
// has: they are brought there on the way, once for each form that the matrices ask for.
void GpuExperts::Multiply(const float* x, const uint32_t* which, uint32_t inputs,
                          std::initializer_list<Output> outputs) {
  for (const ActivationForm form :
       {ActivationForm::kFloat, ActivationForm::kInt8Per32, ActivationForm::kInt8Per256}) {
    const auto takes = [&](const Output& output) { return output.linear.matrix.form == form; };
    if (std::ranges::none_of(outputs, takes)) continue;
    const gpu::GpuRows rows = BringRows(x, which, inputs, form);
    for (const Output& output : outputs) {
      if (!takes(output)) continue;
      const DeviceMatrix& matrix = output.linear.matrix;
      OUTRIDER_CHECK(matrix.inputs == inputs, "rows are as long as the matrix has inputs");
      queue_.Multiply(gpu::GroupedProduct{.product = {.panels = matrix.panels,
                                                      .panel_bytes = matrix.panel_bytes,
                                                      .outputs = matrix.outputs,
                                                      .inputs = inputs,
                                                      .bias = output.linear.bias,
                                                      .x = rows,
                                                      .out = output.out,
                                                      .out_stride = matrix.outputs},
                                          .groups = groups_.As<gpu::ExpertRows>(),
                                          .group_count = group_count_},
                      matrix.kind);
    }
  }
}

gpu::GpuRows GpuExperts::BringRows(const float* x, const uint32_t* which, uint32_t inputs,
                                   ActivationForm form) {
  if (form != ActivationForm::kFloat || which == nullptr) {
    return quants_.Take(x, place_count_, inputs, form, which);
  }
  const gpu::GatherRows gather = {x, which, exchanged_.As<float>(), inputs};
  queue_.Run(gather, place_count_, gather.grid_y());
  return quants_.Take(gather.out, place_count_, inputs, form);
}

}  // namespace outrider
