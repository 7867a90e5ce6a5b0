#include "common/model/weights/streaming/flash_tables.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/formats/tensors/panels.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/weights/load_plan.h"
#include "common/model/weights/streaming/flash_reads.h"

namespace outrider {
namespace {

// Of a table's, which are read for any of them.
uint32_t RowsTogether(const ModelTensor& tensor) {
  const bool in_panels = tensor.place && tensor.place->layout == WeightLayout::kPanels;
  return in_panels ? kPanelOutputs : 1;
}

}  // namespace

uint64_t FlashTables::BytesOfRow(const ModelTensor& tensor) {
  return RowsTogether(tensor) == 1 ? RowBytes(tensor.type, tensor.dims[0])
                                   : PanelBytes(tensor.type, static_cast<uint32_t>(tensor.dims[0]));
}

absl::StatusOr<std::unique_ptr<FlashTables>> FlashTables::Create(
    const ModelFile& model, const std::string& path, std::vector<std::unique_ptr<DirectFile>> files,
    bool has_embeddings) {
  std::unique_ptr<FlashTables> tables(new FlashTables);
  tables->files_ = std::move(files);
  uint64_t bytes_max = 0;
  const auto keep = [&](std::string_view name, std::optional<ModelTensor>& table) -> absl::Status {
    const ModelTensor* const tensor = model.Find(name);
    if (tensor == nullptr) return absl::OkStatus();
    if (!tensor->place) return CannotBeStreamed(*tensor, path);
    OUTRIDER_RETURN_IF_ERROR(CheckRunnable(*tensor, path));
    table = *tensor;
    bytes_max = std::max(bytes_max, BytesOfRow(*tensor));
    return absl::OkStatus();
  };
  if (has_embeddings) {
    OUTRIDER_RETURN_IF_ERROR(keep("token_embd.weight", tables->embeddings_));
  }
  OUTRIDER_RETURN_IF_ERROR(keep("position_embd.weight", tables->positions_));
  size_t alignment = kVectorAlignment;
  for (const auto& file : tables->files_) alignment = std::max(alignment, file->alignment());
  tables->blocks_bytes_ = RoundUp(bytes_max, alignment) + alignment;
  OUTRIDER_ASSIGN_OR_RETURN(
      tables->blocks_, AlignedBuffer::Create(tables->blocks_bytes_ * kLookUpsInFlight, alignment));
  return tables;
}

absl::Status FlashTables::LookUp(WeightTable table, std::span<const TableRow> rows) {
  const ModelTensor& tensor = *TensorOf(table);
  absl::Status status;
  for (size_t done = 0; done < rows.size() && status.ok(); done += kLookUpsInFlight) {
    status = LookUpSome(tensor,
                        rows.subspan(done, std::min<size_t>(kLookUpsInFlight, rows.size() - done)));
  }
  return status;
}

// As many as are read at a time. All that has begun has landed when it returns.
absl::Status FlashTables::LookUpSome(const ModelTensor& tensor, std::span<const TableRow> rows) {
  DirectFile& file = *files_[tensor.place->file];
  const uint64_t bytes = BytesOfRow(tensor);
  const uint32_t rows_together = RowsTogether(tensor);
  const auto extent_of = [&](size_t i) {
    return file.ExtentOf(tensor.place->offset + rows[i].row / rows_together * bytes, bytes);
  };
  const auto blocks_of = [&](size_t i) {
    return blocks_.bytes().subspan(i * blocks_bytes_, extent_of(i).length);
  };
  const auto inputs = static_cast<uint32_t>(tensor.dims[0]);
  absl::Status status;
  size_t begun = 0;
  for (size_t landed = 0; landed < begun || (begun < rows.size() && status.ok());) {
    if (begun < rows.size() && status.ok() && file.in_flight() < file.queue_depth()) {
      status.Update(file.SubmitRead(extent_of(begun).offset, blocks_of(begun), begun));
      if (status.ok()) ++begun;
      continue;
    }
    const DirectFile::Completion done = file.WaitCompletion();
    ++landed;
    status.Update(done.status);
    if (!done.status.ok()) continue;
    const TableRow& row = rows[done.tag];
    DecodeRow({.type = tensor.type,
               .layout = tensor.place->layout,
               .outputs = rows_together,
               .inputs = inputs,
               .data = blocks_of(done.tag).data() + extent_of(done.tag).skip},
              row.row % rows_together, {row.out, inputs});
  }
  if (!status.ok()) return Annotate(status, Concat("tensor ", tensor.name));
  bytes_read_.fetch_add(rows.size() * bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace outrider
