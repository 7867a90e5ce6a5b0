// Tables of which only single rows are wanted, a few kilobytes each, and which therefore stay on flash:
// the embeddings of tokens, unless they are a head that is pinned, and those of positions. Of a head in
// panels the whole panel is read, sixteen rows for one, which is little beside the layers.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FlashTables> tables,
//                             FlashTables::Create(*model, path, std::move(files), true));
//   if (tables->Has(WeightTable::kEmbeddings)) ... tables->LookUp(WeightTable::kEmbeddings, rows) ...
//
// Memory:  memory_bytes(), for as many rows as are read at a time; taken by Create().
// Threads: one at a time, but for bytes_read().
// Errors:  a read that fails is that of the LookUp() it belongs to, and names file, tensor and offset.
//          InvalidArgument for a table that does not lie in a file as it is used.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/direct_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

class FlashTables {
 public:
  static constexpr uint32_t kLookUpsInFlight = 16;

  // `files` are those of the model, by index, and read by nobody else. `path` starts messages.
  static absl::StatusOr<std::unique_ptr<FlashTables>> Create(
      const ModelFile& model, const std::string& path,
      std::vector<std::unique_ptr<DirectFile>> files, bool has_embeddings);

  // What is read for one row.
  static uint64_t BytesOfRow(const ModelTensor& tensor);

  bool Has(WeightTable table) const { return TensorOf(table).has_value(); }
  // Of a table that it has.
  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows);

  uint64_t memory_bytes() const { return blocks_.bytes().size(); }
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  FlashTables() = default;

  const std::optional<ModelTensor>& TensorOf(WeightTable table) const {
    return table == WeightTable::kEmbeddings ? embeddings_ : positions_;
  }
  absl::Status LookUpSome(const ModelTensor& tensor, std::span<const TableRow> rows);

  // Constant after Create(), but for what lies in the memory.
  std::optional<ModelTensor> embeddings_;
  std::optional<ModelTensor> positions_;
  uint64_t blocks_bytes_ = 0;
  AlignedBuffer blocks_;  // kLookUpsInFlight of blocks_bytes_, before the files that write there
  std::vector<std::unique_ptr<DirectFile>> files_;

  std::atomic<uint64_t> bytes_read_ = 0;
};

}  // namespace outrider
