#include "common/kernels/weight_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

// How much of a row DecodeRow() puts together again before decoding it: a K-quant block, or as many
// floats.
constexpr uint32_t kRunElements = 256;
constexpr size_t kRunBytesMax = kRunElements * sizeof(float);

void DecodePacked(const WeightMatrix& matrix, uint32_t output, std::span<float> out) {
  const std::byte* const panel =
      matrix.data + output / kPanelOutputs * PanelBytes(matrix.type, matrix.inputs);
  const uint32_t n = output % kPanelOutputs;
  alignas(kLineBytes) std::array<std::byte, kRunBytesMax> run;
  for (uint32_t k = 0; k < matrix.inputs; k += kRunElements) {
    const uint32_t count = std::min(kRunElements, matrix.inputs - k);
    const size_t bytes = RowBytes(matrix.type, count);
    UnpackRun(matrix.type, matrix.inputs, panel, n, k, count, run.data());
    OUTRIDER_CHECK_OK(Dequantize(matrix.type, std::span(run).first(bytes), out.subspan(k, count)));
  }
}

// Elements of one output, each in a place of its own: from lane to lane, `stride` bytes apart.
template <size_t kBytes>
void CopyLane(const std::byte* from, std::byte* to, size_t stride, size_t count) {
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * stride, kBytes);
}

// Output `n` of a panel becomes output `m` of another of the same type.
void CopyOutput(TensorType type, uint32_t inputs, const std::byte* from, uint32_t n, std::byte* to,
                uint32_t m) {
  const QuantPanel* const shape = FindQuantPanel(type);
  if (shape == nullptr) {
    if (Info(type).block_bytes == 4) {
      CopyLane<4>(from + 4 * n, to + 4 * m, 4 * kPanelOutputs, inputs);
    } else {
      CopyLane<2>(from + 2 * n, to + 2 * m, 2 * kPanelOutputs, inputs);
    }
    return;
  }
  const size_t block_count = inputs / shape->block;
  const size_t halves = HalvesOffset(*shape, inputs);
  CopyLane<4>(from + 4 * n, to + 4 * m, kLineBytes, block_count * shape->lines);
  CopyLane<2>(from + halves + 2 * n, to + halves + 2 * m, kHalvesBytes,
              block_count * shape->halves);
}

}  // namespace

ActivationForm FormFor(TensorType type) {
  const QuantPanel* const shape = FindQuantPanel(type);
  if (shape == nullptr) return ActivationForm::kFloat;
  return shape->block == 32 ? ActivationForm::kInt8Per32 : ActivationForm::kInt8Per256;
}

uint32_t NumericsVersionOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kIQ4_NL:
    case TensorType::kMXFP4:
    case TensorType::kQ5_K:
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
    case TensorType::kIQ4_XS:
      return 2;  // decoded to F32 before, or not run
    default:
      return kNumericsVersion;
  }
}

void DecodePanel(TensorType type, uint32_t inputs, std::span<const std::byte> rows,
                 std::span<float> row, std::span<float> panel) {
  const size_t row_bytes = RowBytes(type, inputs);
  const size_t row_count = rows.size() / row_bytes;
  OUTRIDER_CHECK(rows.size() % row_bytes == 0 && row_count >= 1 && row_count <= kPanelOutputs,
                 "a panel is made of 1 to 16 whole rows");
  OUTRIDER_CHECK(row.size() >= inputs && panel.size() == size_t{inputs} * kPanelOutputs,
                 "there is room for a row and a panel");
  if (row_count < kPanelOutputs) std::ranges::fill(panel, 0.0f);
  for (size_t n = 0; n < row_count; ++n) {
    OUTRIDER_CHECK_OK(Dequantize(type, rows.subspan(n * row_bytes, row_bytes), row.first(inputs)));
    for (size_t k = 0; k < inputs; ++k) panel[k * kPanelOutputs + n] = row[k];
  }
}

void DecodeRow(const WeightMatrix& matrix, uint32_t output, std::span<float> out) {
  OUTRIDER_CHECK(output < matrix.outputs && out.size() == matrix.inputs,
                 "the row exists and there is room for it");
  if (matrix.layout == WeightLayout::kPanels) return DecodePacked(matrix, output, out);
  const size_t row_bytes = RowBytes(matrix.type, matrix.inputs);
  OUTRIDER_CHECK_OK(
      Dequantize(matrix.type, std::span(matrix.data + output * row_bytes, row_bytes), out));
}

uint64_t GatheredBytes(const WeightMatrix& matrix, uint32_t row_count) {
  return matrix.layout == WeightLayout::kPanels ? PackedBytes(matrix.type, row_count, matrix.inputs)
                                                : row_count * RowBytes(matrix.type, matrix.inputs);
}

WeightMatrix GatherRows(const WeightMatrix& matrix, std::span<const uint32_t> rows,
                        std::span<std::byte> memory) {
  const auto count = static_cast<uint32_t>(rows.size());
  OUTRIDER_CHECK(memory.size() == GatheredBytes(matrix, count), "the rows get what they need");
  const bool in_panels = matrix.layout == WeightLayout::kPanels;
  const size_t panel_bytes = in_panels ? PanelBytes(matrix.type, matrix.inputs) : 0;
  const size_t row_bytes = RowBytes(matrix.type, matrix.inputs);
  if (in_panels && count % kPanelOutputs != 0) {  // what no row fills is padding
    std::ranges::fill(memory.last(panel_bytes), std::byte{0});
  }
  for (uint32_t i = 0; i < count; ++i) {
    OUTRIDER_CHECK(rows[i] < matrix.outputs, "the matrix has the row");
    if (in_panels) {
      CopyOutput(matrix.type, matrix.inputs, matrix.data + rows[i] / kPanelOutputs * panel_bytes,
                 rows[i] % kPanelOutputs, memory.data() + i / kPanelOutputs * panel_bytes,
                 i % kPanelOutputs);
    } else {
      std::memcpy(memory.data() + i * row_bytes, matrix.data + rows[i] * row_bytes, row_bytes);
    }
  }
  return {.type = matrix.type,
          .layout = matrix.layout,
          .outputs = count,
          .inputs = matrix.inputs,
          .data = memory.data()};
}

}  // namespace outrider
