#include "common/formats/models/stored_tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/tensors/panels.h"

namespace outrider {
namespace {

// Which stored row of its head-wise halved matrix is row `row` of the paired one.
uint64_t HalvedRow(uint64_t row, uint64_t head_length) {
  const uint64_t in_head = row % head_length;
  return row - in_head + in_head % 2 * (head_length / 2) + in_head / 2;
}

// `count` rows of `row_bytes` each, from row `first` of the pieces.
absl::Status CopyStored(const RowSource& source, uint64_t row_bytes, uint64_t first, uint64_t count,
                        FileReader read, std::byte* out) {
  const uint64_t rows_per_piece = source.pieces[0].bytes / row_bytes;
  while (count > 0) {
    const FilePart& piece = source.pieces[first / rows_per_piece];
    const uint64_t row = first % rows_per_piece;
    const uint64_t run = std::min(count, rows_per_piece - row);
    OUTRIDER_RETURN_IF_ERROR(
        read(piece.file, piece.offset + row * row_bytes, {out, run * row_bytes}));
    out += run * row_bytes;
    first += run;
    count -= run;
  }
  return absl::OkStatus();
}

absl::Status CopyPaired(const RowSource& source, uint64_t row_bytes, uint64_t first, uint64_t count,
                        FileReader read, std::byte* out) {
  const FilePart& piece = source.pieces[0];
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t row = HalvedRow(first + i, source.head_length);
    OUTRIDER_RETURN_IF_ERROR(
        read(piece.file, piece.offset + row * row_bytes, {out + i * row_bytes, row_bytes}));
  }
  return absl::OkStatus();
}

// A vector is one row to the caller and a row for each element here: too small a one to read alone.
absl::Status CopyPairedVector(const StoredTensor& stored, FileReader read, std::byte* out) {
  const FilePart& piece = stored.source.pieces[0];
  const uint64_t element_bytes = RowBytes(stored.tensor.type, 1);
  std::vector<std::byte> halves(piece.bytes);
  OUTRIDER_RETURN_IF_ERROR(read(piece.file, piece.offset, halves));
  for (uint64_t i = 0; i < stored.tensor.dims[0]; ++i) {
    std::memcpy(out + i * element_bytes,
                halves.data() + HalvedRow(i, stored.source.head_length) * element_bytes,
                element_bytes);
  }
  return absl::OkStatus();
}

// Of a stored matrix, which has a row for each of our columns.
void CopyTransposed(const StoredTensor& stored, std::span<const std::byte> piece, uint64_t first,
                    uint64_t count, std::byte* out) {
  const RowSource& source = stored.source;
  const uint64_t element_bytes = RowBytes(stored.tensor.type, 1);
  const uint64_t columns = stored.tensor.dims[0];
  const uint64_t rows = stored.tensor.dims[1];
  const std::byte* from =
      piece.data() + (first * source.row_step + source.row_first) * element_bytes;
  for (uint64_t column = 0; column < columns; ++column) {
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(out + (i * columns + column) * element_bytes,
                  from + i * source.row_step * element_bytes, element_bytes);
    }
    from += rows * source.row_step * element_bytes;
  }
}

absl::Status CopyAllTransposed(const StoredTensor& stored, uint64_t first, uint64_t count,
                               FileReader read, GatheredPiece& gathered, std::byte* out) {
  const RowSource& source = stored.source;
  const uint64_t row_bytes = RowBytes(stored.tensor.type, stored.tensor.dims[0]);
  const uint64_t rows = stored.tensor.dims[1];  // of a piece
  while (count > 0) {
    const uint64_t row = first % rows;
    const uint64_t run = std::min(count, rows - row);
    OUTRIDER_ASSIGN_OR_RETURN(const GatheredPiece::Bytes piece,
                              gathered.Read(source.pieces[first / rows], run, rows, read));
    CopyTransposed(stored, *piece, row, run, out);
    out += run * row_bytes;
    first += run;
    count -= run;
  }
  return absl::OkStatus();
}

// A block's sixteen bytes, from neighbours in a byte to i and i + 16.
void ShuffleNibbles(const std::byte* neighbours, std::byte* out) {
  const auto element = [&](int i) { return neighbours[i / 2] >> 4 * (i % 2) & std::byte{15}; };
  for (int i = 0; i < 16; ++i) out[i] = element(i) | element(i + 16) << 4;
}

// Few enough rows that blocks and scales stay in the cache until they are woven together.
absl::Status CopyScalesApart(const StoredTensor& stored, uint64_t first, uint64_t count,
                             FileReader read, std::byte* out) {
  constexpr uint64_t kNibbleBytes = 16;
  constexpr uint64_t kRowsTogether = 16;
  const RowSource& source = stored.source;
  const FilePart& piece = source.pieces[0];
  const uint64_t blocks = stored.tensor.dims[0] / Info(TensorType::kMXFP4).block_elements;
  std::vector<std::byte> nibbles;
  std::vector<std::byte> scales;
  for (const uint64_t end = first + count; first < end;) {
    const uint64_t run = std::min(end - first, kRowsTogether);
    const uint64_t stored_first = (first * source.row_step + source.row_first) * blocks;
    const uint64_t stored_count = ((run - 1) * source.row_step + 1) * blocks;
    nibbles.resize(stored_count * kNibbleBytes);
    scales.resize(stored_count);
    OUTRIDER_RETURN_IF_ERROR(read(piece.file, piece.offset + stored_first * kNibbleBytes, nibbles));
    OUTRIDER_RETURN_IF_ERROR(read(source.scales.file, source.scales.offset + stored_first, scales));
    for (uint64_t row = 0; row < run; ++row) {
      for (uint64_t i = 0; i < blocks; ++i, out += 1 + kNibbleBytes) {
        const uint64_t block = row * source.row_step * blocks + i;
        out[0] = scales[block];
        ShuffleNibbles(nibbles.data() + block * kNibbleBytes, out + 1);
      }
    }
    first += run;
  }
  return absl::OkStatus();
}

// Panels are read whole, one by one; each matrix of a stack has its own.
absl::Status CopyFromPanels(const StoredTensor& stored, uint64_t first, uint64_t count,
                            FileReader read, std::byte* out) {
  const FilePart& piece = stored.source.pieces[0];
  const TensorType type = stored.tensor.type;
  const auto inputs = static_cast<uint32_t>(stored.tensor.dims[0]);
  const auto outputs = static_cast<uint32_t>(stored.tensor.dims[1]);
  const uint64_t row_bytes = RowBytes(type, inputs);
  std::vector<std::byte> panel(PanelBytes(type, inputs));
  while (count > 0) {
    const auto row = static_cast<uint32_t>(first % outputs);
    const uint32_t begin = row % kPanelOutputs;
    const uint32_t run = static_cast<uint32_t>(
        std::min<uint64_t>(count, std::min(kPanelOutputs - begin, outputs - row)));
    const uint64_t offset =
        first / outputs * PackedBytes(type, outputs, inputs) + row / kPanelOutputs * panel.size();
    OUTRIDER_RETURN_IF_ERROR(read(piece.file, piece.offset + offset, panel));
    for (uint32_t n = begin; n < begin + run; ++n, out += row_bytes) {
      UnpackRun(type, inputs, panel.data(), n, 0, inputs, out);
    }
    first += run;
    count -= run;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GatheredPiece::Bytes> GatheredPiece::Read(const FilePart& piece, uint64_t count,
                                                         uint64_t row_count, FileReader read) {
  MutexLock lock(mu_);
  if (bytes_ == nullptr || piece_ != piece) {
    bytes_ = nullptr;  // before the next one takes as much
    auto bytes = std::make_shared<std::vector<std::byte>>(piece.bytes);
    OUTRIDER_RETURN_IF_ERROR(read(piece.file, piece.offset, *bytes));
    piece_ = piece;
    rows_left_ = row_count;
    bytes_ = std::move(bytes);
  }
  rows_left_ -= std::min(count, rows_left_);
  return rows_left_ > 0 ? bytes_ : std::exchange(bytes_, nullptr);
}

absl::Status CopyRows(const StoredTensor& stored, uint64_t first, uint64_t count, FileReader read,
                      GatheredPiece& gathered, std::span<std::byte> out) {
  const RowSource& source = stored.source;
  const uint64_t row_bytes = RowBytes(stored.tensor.type, stored.tensor.dims[0]);
  OUTRIDER_CHECK(out.size() == count * row_bytes, "the caller sized the output");
  if (count == 0) return absl::OkStatus();
  if (source.pieces.empty()) {
    std::memcpy(out.data(), stored.made.data() + first * row_bytes, out.size());
    return absl::OkStatus();
  }
  switch (source.order) {
    case RowSource::Order::kAsStored:
      return CopyStored(source, row_bytes, first, count, read, out.data());
    case RowSource::Order::kPairHalves:
      if (stored.tensor.dims.size() == 1) return CopyPairedVector(stored, read, out.data());
      return CopyPaired(source, row_bytes, first, count, read, out.data());
    case RowSource::Order::kTransposed:
      return CopyAllTransposed(stored, first, count, read, gathered, out.data());
    case RowSource::Order::kScalesApart:
      return CopyScalesApart(stored, first, count, read, out.data());
    case RowSource::Order::kPanels:
      return CopyFromPanels(stored, first, count, read, out.data());
  }
  OUTRIDER_CHECK(false, "an order is one of these");
}

}  // namespace outrider
