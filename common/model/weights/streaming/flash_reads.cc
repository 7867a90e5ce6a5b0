#include "common/model/weights/streaming/flash_reads.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
uint64_t RowsPerRead(const MatrixPart& part) {
  const uint64_t panel_bytes = RowBytesOf(part) * kPanelOutputs;
  return std::max<uint64_t>(1, (kReadBytesMax - kBlockBytesMax) / panel_bytes) * kPanelOutputs;
}

absl::StatusOr<std::vector<FlashRead>> PlanReads(std::span<const MatrixPart> parts,
                                                 std::span<const DirectFile* const> files,
                                                 const std::string& path) {
  std::vector<FlashRead> reads;
  for (const MatrixPart& part : parts) {
    const ModelTensor& tensor = *part.tensor;
    if (!tensor.place) {
      return InvalidArgument(
          path, ": the rows of tensor ", tensor.name,
          " do not lie in the file as they are used, so they cannot be streamed; "
          "write a file that can be with `outrider convert --flash`");
    }
    const uint64_t row_bytes = RowBytesOf(part);
    const uint64_t step = RowsPerRead(part);
    for (uint64_t row = 0; row < part.view.outputs; row += step) {
      const uint64_t count = std::min<uint64_t>(step, part.view.outputs - row);
      const uint64_t offset = tensor.place->offset + (part.first_row + row) * row_bytes;
      reads.push_back({.file = tensor.place->file,
                       .extent = files[tensor.place->file]->ExtentOf(offset, count * row_bytes),
                       .part = part,
                       .first_row = row,
                       .row_count = count});
    }
  }
  return reads;
}

uint64_t LongestExtent(std::span<const FlashRead> reads) {
  uint64_t longest = 0;
  for (const FlashRead& read : reads) longest = std::max(longest, read.extent.length);
  return longest;
}

uint64_t ReadBytes(std::span<const FlashRead> reads) {
  uint64_t bytes = 0;
  for (const FlashRead& read : reads) bytes += read.extent.length;
  return bytes;
}

void Unpack(const FlashRead& read, std::span<const std::byte> blocks, std::byte* slot) {
  const MatrixPart& part = read.part;
  const uint64_t row_bytes = RowBytesOf(part);
  const std::span<const std::byte> rows =
      blocks.subspan(read.extent.skip, read.row_count * row_bytes);
  if (part.view.layout == WeightLayout::kRows) {
    std::memcpy(slot + part.at + read.first_row * row_bytes, rows.data(), rows.size());
    return;
  }
  const uint64_t panel_bytes = PanelBytes(part.view.type, part.view.inputs);
  std::byte* panel = slot + part.at + read.first_row / kPanelOutputs * panel_bytes;
  for (uint64_t row = 0; row < read.row_count; row += kPanelOutputs, panel += panel_bytes) {
    const uint64_t count = std::min<uint64_t>(kPanelOutputs, read.row_count - row);
    PackPanel(part.view.type, part.view.inputs, rows.subspan(row * row_bytes, count * row_bytes),
              {panel, panel_bytes});
  }
}

}  // namespace outrider
