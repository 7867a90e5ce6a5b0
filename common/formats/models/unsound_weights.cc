#include "common/formats/models/unsound_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"

namespace outrider {
namespace {

// Decoded together: at most twenty times as much (IQ1_S), which the second-level cache holds.
constexpr uint64_t kDecodedTogetherBytes = 16 << 10;

// Read together, of matrices whose rows a file does not have one after another: a band of few rows
// would be gathered from all of the matrix, and the next one again. Published experts are smaller.
constexpr uint64_t kReadTogetherBytes = 64 << 20;

// So many rows of `row_bytes` as are `bytes`, and at least one.
uint64_t RowsIn(uint64_t bytes, uint64_t row_bytes, uint64_t row_count) {
  return std::clamp<uint64_t>(bytes / row_bytes, 1, row_count);
}

// The first one of `rows`, which is the row counted from there.
absl::StatusOr<std::optional<UnsoundWeight>> FindIn(const ModelTensor& tensor,
                                                    std::span<const std::byte> rows) {
  const uint64_t columns = tensor.dims[0];
  const uint64_t row_bytes = RowBytes(tensor.type, columns);
  const uint64_t row_count = rows.size() / row_bytes;
  const uint64_t band = RowsIn(kDecodedTogetherBytes, row_bytes, row_count);
  std::vector<float> values(band * columns);
  for (uint64_t first = 0; first < row_count; first += band) {
    const uint64_t count = std::min(band, row_count - first);
    const std::span<float> decoded = std::span(values).first(count * columns);
    OUTRIDER_RETURN_IF_ERROR(
        Dequantize(tensor.type, rows.subspan(first * row_bytes, count * row_bytes), decoded));
    const auto found =
        std::ranges::find_if(decoded, [](float value) { return !std::isfinite(value); });
    if (found == decoded.end()) continue;
    const auto at = static_cast<uint64_t>(found - decoded.begin());
    return UnsoundWeight{first + at / columns, at % columns, *found};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<UnsoundWeight>> FindUnsound(const ModelFile& model,
                                                         const ModelTensor& tensor,
                                                         const std::string& path,
                                                         const WeightsRead& on_read) {
  const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
  const uint64_t row_count = tensor.row_count();
  const uint64_t matrix_rows = tensor.dims.size() > 1 ? tensor.dims[1] : 1;
  const uint64_t band =
      RowsIn(tensor.place ? kDecodedTogetherBytes : kReadTogetherBytes, row_bytes, matrix_rows);
  std::vector<std::byte> rows(band * row_bytes);
  for (uint64_t first = 0; first < row_count;) {
    const uint64_t count = std::min(band, matrix_rows - first % matrix_rows);
    const std::span<std::byte> read = std::span(rows).first(count * row_bytes);
    OUTRIDER_RETURN_IF_ERROR(model.ReadRows(tensor, first, count, read));
    if (on_read) on_read(read.size());
    absl::StatusOr<std::optional<UnsoundWeight>> found = FindIn(tensor, read);
    if (!found.ok()) return Annotate(found.status(), Concat(path, ": tensor ", tensor.name));
    if (*found) {
      (*found)->row += first;
      return found;
    }
    first += count;
  }
  return std::nullopt;
}

}  // namespace outrider
