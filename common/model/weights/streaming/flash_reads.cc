#include "common/model/weights/streaming/flash_reads.h"

#include <algorithm>
#include <cstring>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/formats/tensors/panels.h"

namespace outrider {
namespace {

uint64_t RowBytesOf(const MatrixPart& part) {
  return RowBytes(part.tensor->type, part.tensor->dims[0]);
}

// Of a stack each matrix has panels of its own.
uint64_t OffsetInPanels(const MatrixPart& part) {
  const uint64_t outputs = part.tensor->dims[1];
  const TensorType type = part.tensor->type;
  return part.first_row / outputs *
             PackedBytes(type, static_cast<uint32_t>(outputs), part.view.inputs) +
         part.first_row % outputs / kPanelOutputs * PanelBytes(type, part.view.inputs);
}

// Whole panels as they are, or rows.
bool CanBeStreamed(const MatrixPart& part) {
  const ModelTensor& tensor = *part.tensor;
  const bool in_rows = tensor.place && tensor.place->layout == WeightLayout::kRows;
  const bool in_panels = tensor.place && tensor.place->layout == WeightLayout::kPanels &&
                         part.view.layout == WeightLayout::kPanels &&
                         part.first_row % tensor.dims[1] % kPanelOutputs == 0;
  return in_rows || in_panels;
}

}  // namespace

absl::Status CannotBeStreamed(const ModelTensor& tensor, const std::string& path) {
  return InvalidArgument(path, ": tensor ", tensor.name,
                         " does not lie in the file as it is used, so it cannot be streamed; "
                         "write a file that can be with `outrider convert --flash`");
}

uint64_t PartReads::staging_bytes() const {
  if (landing == Landing::kInPlace) return 0;
  return RoundUp(std::min(step, bytes), kBlockBytesMax) + kBlockBytesMax;
}

PartReads ReadsOf(const MatrixPart& part, uint64_t block_bytes) {
  const ModelTensor& tensor = *part.tensor;
  const uint64_t begin = tensor.place ? tensor.place->offset : 0;
  if (tensor.place && tensor.place->layout == part.view.layout) {
    const bool is_in_panels = part.view.layout == WeightLayout::kPanels;
    const uint64_t offset =
        begin + (is_in_panels ? OffsetInPanels(part) : part.first_row * RowBytesOf(part));
    const bool in_place = block_bytes <= kBlockBytesMax && offset % kBlockBytesMax == 0 &&
                          part.at % kSlotAlignment == 0;
    return {.landing = in_place ? Landing::kInPlace : Landing::kCopied,
            .offset = offset,
            .bytes = part.bytes,
            .step = in_place ? kReadBytesMax : kReadBytesMax - kBlockBytesMax};
  }
  const uint64_t panel_bytes = RowBytesOf(part) * kPanelOutputs;  // as rows
  return {
      .landing = Landing::kPacked,
      .offset = begin + part.first_row * RowBytesOf(part),
      .bytes = part.view.outputs * RowBytesOf(part),
      .step = std::max<uint64_t>(1, (kReadBytesMax - kBlockBytesMax) / panel_bytes) * panel_bytes};
}

absl::StatusOr<std::vector<FlashRead>> PlanReads(std::span<const MatrixPart> parts,
                                                 std::span<const DirectFile* const> files,
                                                 const std::string& path) {
  std::vector<FlashRead> reads;
  for (const MatrixPart& part : parts) {
    if (!CanBeStreamed(part)) return CannotBeStreamed(*part.tensor, path);
    const uint32_t file = part.tensor->place->file;
    const PartReads of_part = ReadsOf(part, files[file]->alignment());
    // What becomes of so many bytes of the file: a read that is packed is whole panels of rows.
    const uint64_t step_in_slot = of_part.landing == Landing::kPacked
                                      ? of_part.step / (RowBytesOf(part) * kPanelOutputs) *
                                            PanelBytes(part.view.type, part.view.inputs)
                                      : of_part.step;
    size_t at = part.at;
    for (uint64_t done = 0; done < of_part.bytes; done += of_part.step, at += step_in_slot) {
      const uint64_t bytes = std::min(of_part.step, of_part.bytes - done);
      reads.push_back({.file = file,
                       .extent = files[file]->ExtentOf(of_part.offset + done, bytes),
                       .part = part,
                       .landing = of_part.landing,
                       .bytes = bytes,
                       .at = at});
    }
  }
  return reads;
}

uint64_t LongestStaged(std::span<const FlashRead> reads) {
  uint64_t longest = 0;
  for (const FlashRead& read : reads) {
    if (read.landing != Landing::kInPlace) longest = std::max(longest, read.extent.length);
  }
  return longest;
}

uint64_t ReadBytes(std::span<const FlashRead> reads) {
  uint64_t bytes = 0;
  for (const FlashRead& read : reads) bytes += read.extent.length;
  return bytes;
}

std::span<std::byte> LandingPlace(const FlashRead& read, std::byte* slot,
                                  std::span<std::byte> staging) {
  if (read.landing == Landing::kInPlace) return {slot + read.at, read.extent.length};
  return staging.first(read.extent.length);
}

void Unload(const FlashRead& read, std::span<const std::byte> staging, std::byte* slot) {
  if (read.landing == Landing::kInPlace) return;
  const std::span<const std::byte> bytes = staging.subspan(read.extent.skip, read.bytes);
  if (read.landing == Landing::kCopied) {
    std::memcpy(slot + read.at, bytes.data(), bytes.size());
    return;
  }
  const WeightMatrix& view = read.part.view;
  const uint64_t panel_bytes = PanelBytes(view.type, view.inputs);
  const uint64_t rows_bytes = RowBytesOf(read.part) * kPanelOutputs;
  std::byte* panel = slot + read.at;
  for (uint64_t done = 0; done < bytes.size(); done += rows_bytes, panel += panel_bytes) {
    PackPanel(view.type, view.inputs,
              bytes.subspan(done, std::min<uint64_t>(rows_bytes, bytes.size() - done)),
              {panel, panel_bytes});
  }
}

}  // namespace outrider
