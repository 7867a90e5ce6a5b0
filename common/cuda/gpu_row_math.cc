#include "common/cuda/gpu_row_math.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<GpuRowMath>> GpuRowMath::Create(DeviceQueue& queue,
                                                               size_t element_count_max,
                                                               std::string_view what) {
  std::unique_ptr<GpuRowMath> made(new GpuRowMath(queue));
  const size_t count = element_count_max;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {made->per_32_.quants, count},
      {made->per_32_.scales, (count / 32 + 1) * sizeof(float)},
      {made->per_32_.sums, (count / 16 + 1) * sizeof(int16_t)},
      {made->per_256_.quants, count},
      {made->per_256_.scales, (count / 256 + 1) * sizeof(float)},
      {made->per_256_.sums, (count / 16 + 1) * sizeof(int16_t)}};
  for (const auto& [buffer, bytes] : buffers) {
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue, bytes, what));
  }
  return made;
}

void GpuRowMath::Multiply(const float* x, uint32_t row_count, uint32_t inputs,
                          std::initializer_list<Output> outputs, ExpertTiles tiles) {
  for (const ActivationForm form :
       {ActivationForm::kFloat, ActivationForm::kInt8Per32, ActivationForm::kInt8Per256}) {
    const auto takes = [&](const Output& output) { return output.linear.matrix.form == form; };
    if (std::ranges::none_of(outputs, takes)) continue;
    const ActivationRows rows = Quantize(x, row_count, inputs, form);
    for (const Output& output : outputs) {
      if (!takes(output)) continue;
      const DeviceMatrix& matrix = output.linear.matrix;
      OUTRIDER_CHECK(matrix.inputs == inputs, "rows are as long as the matrix has inputs");
      queue_.Multiply({.panels = matrix.panels,
                       .panel_bytes = matrix.panel_bytes,
                       .outputs = matrix.outputs,
                       .inputs = inputs,
                       .bias = output.linear.bias,
                       .x = rows,
                       .out = output.out,
                       .out_stride = matrix.outputs,
                       .tiles = tiles.tiles,
                       .tile_count = tiles.count,
                       .expert_bytes = matrix.expert_bytes},
                      matrix.kind);
    }
  }
}

ActivationRows GpuRowMath::Quantize(const float* x, uint32_t row_count, uint32_t inputs,
                                    ActivationForm form) {
  ActivationRows rows = {.row_count = row_count, .inputs = inputs};
  if (form == ActivationForm::kFloat) {
    rows.values = x;
    rows.value_stride = inputs;
    return rows;
  }
  const bool is_per_32 = form == ActivationForm::kInt8Per32;
  const Quants& to = is_per_32 ? per_32_ : per_256_;
  const gpu::QuantizeRows quantize = {.x = x,
                                      .quants = to.quants.As<int8_t>(),
                                      .scales = to.scales.As<float>(),
                                      .sums = to.sums.As<int16_t>(),
                                      .row_count = row_count,
                                      .inputs = inputs,
                                      .block_length = is_per_32 ? 32u : 256u};
  queue_.Run(quantize, row_count, quantize.grid_y());
  rows.quants = quantize.quants;
  rows.quant_stride = inputs;
  rows.scales = quantize.scales;
  rows.scale_stride = row_count;
  rows.sums = quantize.sums;
  rows.sum_stride = inputs / 16;
  return rows;
}

}  // namespace outrider
