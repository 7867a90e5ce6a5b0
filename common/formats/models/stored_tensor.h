// A tensor as the model sees it and where its rows come from: the file may store them in another
// order, in several pieces or not as rows at all. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/formats/models/model_file.h"

namespace outrider {

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
  };

  // Matrices of equally many rows, one below the other: one, or one for each expert.
  std::vector<std::span<const std::byte>> pieces;
  Order order = Order::kAsStored;
  uint32_t head_length = 0;  // D, for kPairHalves
  // For kTransposed and kScalesApart: of the stored rows (columns, where they are exchanged) of a
  // piece these are ours: row_first, row_first + row_step, ...
  uint64_t row_first = 0;
  uint64_t row_step = 1;
  std::span<const std::byte> scales = {};  // for kScalesApart

  // The tensor's bytes lie in one piece and in its own order.
  bool is_plain() const { return order == Order::kAsStored && pieces.size() == 1; }
};

struct StoredTensor {
  ModelTensor tensor;
  RowSource source;
  std::string stored_name;      // as the file calls it, or the first of its pieces
  std::vector<std::byte> made;  // what no file holds; the source points into it

  StoredTensor() = default;
  StoredTensor(StoredTensor&&) = default;
  StoredTensor& operator=(StoredTensor&&) = default;
};

// A byte that could not be had, since the file has become shorter or its disk fails.
struct LostByte {
  uint64_t index = 0;      // as the file stores the tensor, or the scales
  bool of_scales = false;  // that lie apart
};

// Rows [first, first + count) into `out` of exactly their size. The pieces together hold the
// tensor's bytes; no memory is taken. None: all bytes could be had.
std::optional<LostByte> CopyRows(const StoredTensor& stored, uint64_t first, uint64_t count,
                                 std::span<std::byte> out);

// Lets go of the pages these rows were read from (MappedFile::Forget). Where rows are gathered from
// all over a matrix, that is when the last of them is forgotten.
void ForgetRows(const StoredTensor& stored, uint64_t first, uint64_t count);

}  // namespace outrider
