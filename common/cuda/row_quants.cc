#include "common/cuda/row_quants.h"

#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/cuda/kernels/product_choice.h"

namespace outrider {

absl::StatusOr<RowQuants> RowQuants::Create(DeviceQueue& queue, size_t row_count_max,
                                            size_t inputs_max, size_t outputs_max,
                                            std::string_view what) {
  RowQuants made;
  made.queue_ = &queue;
  const size_t rows = row_count_max;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {made.per_32_.quants, rows * inputs_max},
      {made.per_32_.scales, rows * (inputs_max / 32 + 1) * sizeof(float)},
      {made.per_32_.sums, rows * (inputs_max / 16 + 1) * sizeof(int16_t)},
      {made.per_256_.quants, rows * inputs_max},
      {made.per_256_.scales, rows * (inputs_max / 256 + 1) * sizeof(float)},
      {made.per_256_.sums, rows * (inputs_max / 16 + 1) * sizeof(int16_t)},
      {made.terms_, rows * inputs_max * sizeof(uint32_t)},
      {made.sums_, gpu::RoomFor(rows, outputs_max) * sizeof(float)},
      {made.counters_, gpu::kSharedBlocks * sizeof(uint32_t)}};
  for (const auto& [buffer, bytes] : buffers) {
    if (bytes == 0) continue;
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue, bytes, what));
  }
  const std::array<uint32_t, gpu::kSharedBlocks> zeros = {};
  queue.Upload(made.counters_.data(), zeros.data(), sizeof(zeros));
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
  const gpu::QuantizeRows quantize = {.x = x,
                                      .quants = to.quants.As<int8_t>(),
                                      .scales = to.scales.As<float>(),
                                      .sums = to.sums.As<int16_t>(),
                                      .row_count = row_count,
                                      .inputs = inputs,
                                      .block_length = is_per_32 ? 32u : 256u,
                                      .which = which};
  queue_->Run(quantize, row_count, quantize.grid_y());
  rows.quants = quantize.quants;
  rows.quant_stride = inputs;
  rows.scales = quantize.scales;
  rows.scale_stride = row_count;
  rows.sums = quantize.sums;
  rows.sum_stride = inputs / 16;
  return rows;
}

void RowQuants::Split(ActivationRows& rows) {
  const gpu::SplitRows split = {rows.values, terms_.As<uint32_t>(), rows.inputs};
  queue_->Run(split, rows.row_count, split.grid_y());
  rows.terms = split.terms;
}

}  // namespace outrider
