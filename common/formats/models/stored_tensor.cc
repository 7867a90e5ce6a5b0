#include "common/formats/models/stored_tensor.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/mapped_file.h"
#include "common/base/mapped_read.h"

namespace outrider {
namespace {

// Which stored row of its head-wise halved matrix is row `row` of the paired one.
uint64_t HalvedRow(uint64_t row, uint64_t head_length) {
  const uint64_t in_head = row % head_length;
  return row - in_head + in_head % 2 * (head_length / 2) + in_head / 2;
}

// `rows` rows of `row_bytes` each, from row `first` of the pieces.
void CopyStored(const RowSource& source, uint64_t row_bytes, uint64_t first, uint64_t count,
                std::byte* out) {
  const uint64_t rows_per_piece = source.pieces[0].size() / row_bytes;
  while (count > 0) {
    const uint64_t row = first % rows_per_piece;
    const uint64_t run = std::min(count, rows_per_piece - row);
    std::memcpy(out, source.pieces[first / rows_per_piece].data() + row * row_bytes,
                run * row_bytes);
    out += run * row_bytes;
    first += run;
    count -= run;
  }
}

void CopyPaired(const RowSource& source, uint64_t row_bytes, uint64_t first, uint64_t count,
                std::byte* out) {
  const std::byte* const stored = source.pieces[0].data();
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * row_bytes, stored + HalvedRow(first + i, source.head_length) * row_bytes,
                row_bytes);
  }
}

// The stored matrices have a row for each of our columns; reading them row by row touches every page
// of the band once.
void CopyTransposed(const StoredTensor& stored, uint64_t first, uint64_t count, std::byte* out) {
  const RowSource& source = stored.source;
  const uint64_t element_bytes = RowBytes(stored.tensor.type, 1);
  const uint64_t columns = stored.tensor.dims[0];
  const uint64_t rows = stored.tensor.dims[1];  // of a piece
  while (count > 0) {
    const uint64_t row = first % rows;
    const uint64_t run = std::min(count, rows - row);
    const std::byte* from = source.pieces[first / rows].data() +
                            (row * source.row_step + source.row_first) * element_bytes;
    for (uint64_t column = 0; column < columns; ++column) {
      for (uint64_t i = 0; i < run; ++i) {
        std::memcpy(out + (i * columns + column) * element_bytes,
                    from + i * source.row_step * element_bytes, element_bytes);
      }
      from += rows * source.row_step * element_bytes;
    }
    out += run * columns * element_bytes;
    first += run;
    count -= run;
  }
}

// A block's sixteen bytes, from neighbours in a byte to i and i + 16.
void ShuffleNibbles(const std::byte* neighbours, std::byte* out) {
  const auto element = [&](int i) { return neighbours[i / 2] >> 4 * (i % 2) & std::byte{15}; };
  for (int i = 0; i < 16; ++i) out[i] = element(i) | element(i + 16) << 4;
}

void CopyScalesApart(const StoredTensor& stored, uint64_t first, uint64_t count, std::byte* out) {
  constexpr uint64_t kNibbleBytes = 16;
  const RowSource& source = stored.source;
  const uint64_t blocks = stored.tensor.dims[0] / Info(TensorType::kMXFP4).block_elements;
  for (uint64_t row = first; row < first + count; ++row) {
    const uint64_t block = (row * source.row_step + source.row_first) * blocks;
    for (uint64_t i = 0; i < blocks; ++i, out += 1 + kNibbleBytes) {
      out[0] = source.scales[block + i];
      ShuffleNibbles(source.pieces[0].data() + (block + i) * kNibbleBytes, out + 1);
    }
  }
}

void Copy(const StoredTensor& stored, uint64_t first, uint64_t count, std::span<std::byte> out) {
  const TensorType type = stored.tensor.type;
  const std::vector<uint64_t>& dims = stored.tensor.dims;
  const RowSource& source = stored.source;
  OUTRIDER_CHECK(!source.pieces.empty(), "a tensor has bytes");
  const uint64_t row_bytes = RowBytes(type, dims[0]);
  OUTRIDER_CHECK(out.size() == count * row_bytes, "the caller sized the output");
  if (count == 0) return;
  switch (source.order) {
    case RowSource::Order::kAsStored:
      return CopyStored(source, row_bytes, first, count, out.data());
    case RowSource::Order::kPairHalves:
      // A vector is one row to the caller and a row for each element here.
      if (dims.size() == 1) return CopyPaired(source, RowBytes(type, 1), 0, dims[0], out.data());
      return CopyPaired(source, row_bytes, first, count, out.data());
    case RowSource::Order::kTransposed:
      return CopyTransposed(stored, first, count, out.data());
    case RowSource::Order::kScalesApart:
      return CopyScalesApart(stored, first, count, out.data());
  }
}

// Which byte of `bytes` a fault at `lost` is; none: it is elsewhere. It may be said to be at the
// beginning of its page.
std::optional<uint64_t> IndexIn(std::span<const std::byte> bytes, const std::byte* lost) {
  constexpr uint64_t kPageBytes = 4096;
  if (lost + kPageBytes <= bytes.data() || lost >= bytes.data() + bytes.size()) return std::nullopt;
  return static_cast<uint64_t>(std::max(lost, bytes.data()) - bytes.data());
}

}  // namespace

std::optional<LostByte> CopyRows(const StoredTensor& stored, uint64_t first, uint64_t count,
                                 std::span<std::byte> out) {
  const auto lost = ReadMapped([&] { Copy(stored, first, count, out); });
  if (!lost) return std::nullopt;
  uint64_t before = 0;
  for (const std::span<const std::byte> piece : stored.source.pieces) {
    if (const auto index = IndexIn(piece, *lost)) return LostByte{.index = before + *index};
    before += piece.size();
  }
  const std::optional<uint64_t> index = IndexIn(stored.source.scales, *lost);
  return LostByte{.index = index.value_or(0), .of_scales = index.has_value()};
}

void ForgetRows(const StoredTensor& stored, uint64_t first, uint64_t count) {
  if (!stored.made.empty() || count == 0) return;  // no file's pages
  const std::vector<uint64_t>& dims = stored.tensor.dims;
  const uint64_t rows = stored.tensor.row_count();
  if (first > rows || count > rows - first) return;
  const RowSource& source = stored.source;
  uint64_t end = first + count;
  if (source.order == RowSource::Order::kTransposed) {
    if (end < rows) return;
    first = 0;
    end = rows * source.row_step;
  }
  if (source.order == RowSource::Order::kPairHalves && dims.size() > 1) {  // whole heads
    first -= first % source.head_length;
    end = std::min(rows, (end + source.head_length - 1) / source.head_length * source.head_length);
  }
  uint64_t row_bytes = stored.tensor.bytes / rows;
  if (source.order == RowSource::Order::kScalesApart) {
    const uint64_t scales = source.scales.size() / (rows * source.row_step);  // of a stored row
    row_bytes -= scales;
    first *= source.row_step;
    end *= source.row_step;
    MappedFile::Forget(source.scales.subspan(first * scales, (end - first) * scales));
  }
  const uint64_t piece_rows = source.pieces[0].size() / row_bytes;
  while (first < end) {
    const uint64_t row = first % piece_rows;
    const uint64_t run = std::min(end - first, piece_rows - row);
    MappedFile::Forget(source.pieces[first / piece_rows].subspan(row * row_bytes, run * row_bytes));
    first += run;
  }
}

}  // namespace outrider
