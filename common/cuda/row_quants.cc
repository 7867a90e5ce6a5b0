#include "common/cuda/row_quants.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// A row's scales begin on 16 bytes.
uint32_t ScaleStride(size_t inputs, uint32_t block_length) {
  return static_cast<uint32_t>((inputs / block_length + 4) / 4 * 4);
}

}  // namespace

absl::StatusOr<RowQuants> RowQuants::Create(DeviceQueue& queue, size_t row_count_max,
                                            size_t inputs_max, std::string_view what) {
  RowQuants made;
  made.queue_ = &queue;
  const size_t rows = row_count_max;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {made.per_32_.quants, rows * inputs_max},
      {made.per_32_.scales, rows * ScaleStride(inputs_max, 32) * sizeof(float)},
      {made.per_32_.sums, rows * (inputs_max / 16 + 1) * sizeof(int16_t)},
      {made.per_256_.quants, rows * inputs_max},
      {made.per_256_.scales, rows * ScaleStride(inputs_max, 256) * sizeof(float)},
      {made.per_256_.sums, rows * (inputs_max / 16 + 1) * sizeof(int16_t)}};
  for (const auto& [buffer, bytes] : buffers) {
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue, bytes, what));
  }
  return made;
}

ActivationRows RowQuants::Take(const float* x, uint32_t row_count, uint32_t inputs,
                               ActivationForm form, const uint32_t* which) {
  ActivationRows rows = {.row_count = row_count, .inputs = inputs};
  if (form == ActivationForm::kFloat) {
    OUTRIDER_CHECK(which == nullptr, "floats stay where they are");
    rows.values = x;
    rows.value_stride = inputs;
    return rows;
  }
  const bool is_per_32 = form == ActivationForm::kInt8Per32;
  const Quants& to = is_per_32 ? per_32_ : per_256_;
  const uint32_t block_length = is_per_32 ? 32 : 256;
  const gpu::QuantizeRows quantize = {.x = x,
                                      .quants = to.quants.As<int8_t>(),
                                      .scales = to.scales.As<float>(),
                                      .sums = to.sums.As<int16_t>(),
                                      .inputs = inputs,
                                      .block_length = block_length,
                                      .scale_stride = ScaleStride(inputs, block_length),
                                      .which = which};
  queue_->Run(quantize, row_count, quantize.grid_y());
  rows.quants = quantize.quants;
  rows.quant_stride = inputs;
  rows.scales = quantize.scales;
  rows.scale_stride = quantize.scale_stride;
  rows.sums = quantize.sums;
  rows.sum_stride = inputs / 16;
  return rows;
}

}  // namespace outrider
