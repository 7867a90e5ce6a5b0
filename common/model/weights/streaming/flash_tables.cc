#include "common/model/weights/streaming/flash_tables.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/weights/load_plan.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<FlashTables>> FlashTables::Create(
    const ModelFile& model, const std::string& path, std::vector<std::unique_ptr<DirectFile>> files,
    bool has_embeddings) {
  std::unique_ptr<FlashTables> tables(new FlashTables);
  tables->files_ = std::move(files);
  uint64_t row_bytes_max = 0;
  const auto keep = [&](std::string_view name, std::optional<ModelTensor>& table) -> absl::Status {
    const ModelTensor* const tensor = model.Find(name);
    if (tensor == nullptr) return absl::OkStatus();
    if (!tensor->place) {
      return InvalidArgument(path, ": the rows of tensor ", tensor->name,
                             " do not lie in the file as they are used, so they cannot be "
                             "streamed; write a file that can be with `outrider convert --flash`");
    }
    OUTRIDER_RETURN_IF_ERROR(CheckRunnable(*tensor, path));
    table = *tensor;
    row_bytes_max = std::max(row_bytes_max, RowBytes(tensor->type, tensor->dims[0]));
    return absl::OkStatus();
  };
  if (has_embeddings) {
    OUTRIDER_RETURN_IF_ERROR(keep("token_embd.weight", tables->embeddings_));
  }
  OUTRIDER_RETURN_IF_ERROR(keep("position_embd.weight", tables->positions_));
  size_t alignment = kVectorAlignment;
  for (const auto& file : tables->files_) alignment = std::max(alignment, file->alignment());
  tables->row_bytes_ = RoundUp(row_bytes_max, alignment) + alignment;
  OUTRIDER_ASSIGN_OR_RETURN(
      tables->rows_, AlignedBuffer::Create(tables->row_bytes_ * kLookUpsInFlight, alignment));
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
  const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
  const auto extent_of = [&](size_t i) {
    return file.ExtentOf(tensor.place->offset + rows[i].row * row_bytes, row_bytes);
  };
  const auto blocks_of = [&](size_t i) {
    return rows_.bytes().subspan(i * row_bytes_, extent_of(i).length);
  };
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
    status.Update(Dequantize(tensor.type,
                             blocks_of(done.tag).subspan(extent_of(done.tag).skip, row_bytes),
                             {row.out, tensor.dims[0]}));
  }
  if (!status.ok()) return Annotate(status, Concat("tensor ", tensor.name));
  bytes_read_.fetch_add(rows.size() * row_bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace outrider
