// A tensor as the model sees it and where its rows come from: the file may store them in another
// order, in several pieces or not as rows at all. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/formats/models/model_file.h"

namespace outrider {

// Bytes of one of the model's files.
struct FilePart {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  FilePart Sub(uint64_t skip, uint64_t count) const { return {file, offset + skip, count}; }
  FilePart From(uint64_t skip) const { return Sub(skip, bytes - skip); }
  bool operator==(const FilePart&) const = default;
};

// Reads the bytes from `offset` on of one of the model's files, all of `out` or an error that names it.
using FileReader =
    absl::FunctionRef<absl::Status(uint32_t file, uint64_t offset, std::span<std::byte> out)>;

struct RowSource {
  enum class Order {
    kAsStored,
    // Each head's rows are stored as two halves, and wanted as pairs: 0, D/2, 1, D/2+1, ... Hugging
    // Face keeps Llama's queries and keys so that rope turns (i, i+D/2); GGUF turns (2i, 2i+1).
    // A vector (a bias) is reordered element by element.
    kPairHalves,
    // Stored with rows and columns exchanged, as GPT-2's matrices are.
    kTransposed,
    // MXFP4 as gpt-oss has it: the scales of all blocks in a tensor of their own, and in each of a
    // block's sixteen bytes two neighbours, where GGUF has elements i and i + 16.
    kScalesApart,
    // In panels (tensors/panels.h), as products read them.
    kPanels,
  };

  // Matrices of equally many rows, one below the other: one, or one for each expert. None where no
  // file holds the tensor.
  std::vector<FilePart> pieces;
  Order order = Order::kAsStored;
  uint32_t head_length = 0;  // D, for kPairHalves
  // For kTransposed and kScalesApart: of the stored rows (columns, where they are exchanged) of a
  // piece these are ours: row_first, row_first + row_step, ...
  uint64_t row_first = 0;
  uint64_t row_step = 1;
  FilePart scales = {};  // for kScalesApart

  // The tensor's bytes lie in one piece and in its own order.
  bool is_plain() const { return order == Order::kAsStored && pieces.size() == 1; }
};

struct StoredTensor {
  ModelTensor tensor;
  RowSource source;
  std::string stored_name;      // as the file calls it, or the first of its pieces
  std::vector<std::byte> made;  // what no file holds

  StoredTensor() = default;
  StoredTensor(StoredTensor&&) = default;
  StoredTensor& operator=(StoredTensor&&) = default;
};

// The matrix that elements are being gathered from all over, whole: the first who asks for rows of it
// reads it, and it goes when as many rows as it has were gathered.
//
// Threads: any. Who asks for another matrix meanwhile has this one read again for whoever still needs it.
// Memory:  that of one matrix, an expert's where they are stacked.
class GatheredPiece {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;

  // For `count` of the piece's `row_count` rows.
  absl::StatusOr<Bytes> Read(const FilePart& piece, uint64_t count, uint64_t row_count,
                             FileReader read);

 private:
  Mutex mu_;
  FilePart piece_ ABSL_GUARDED_BY(mu_);
  uint64_t rows_left_ ABSL_GUARDED_BY(mu_) = 0;
  Bytes bytes_ ABSL_GUARDED_BY(mu_);  // null when no row is left
};

// Rows [first, first + count) into `out` of exactly their size. The pieces together hold the
// tensor's bytes. Takes no more memory than a few rows', but for what `gathered` does.
absl::Status CopyRows(const StoredTensor& stored, uint64_t first, uint64_t count, FileReader read,
                      GatheredPiece& gathered, std::span<std::byte> out);

}  // namespace outrider
