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

// Read together: decoded, at most twenty times as much (IQ1_S), which the second-level cache holds.
constexpr uint64_t kReadTogetherBytes = 16 << 10;

}  // namespace

absl::StatusOr<std::optional<UnsoundWeight>> FindUnsound(const ModelFile& model,
                                                         const ModelTensor& tensor,
                                                         const std::string& path) {
  const uint64_t columns = tensor.dims[0];
  const uint64_t row_bytes = RowBytes(tensor.type, columns);
  const uint64_t row_count = tensor.row_count();
  const uint64_t band = std::clamp<uint64_t>(kReadTogetherBytes / row_bytes, 1, row_count);
  std::vector<std::byte> rows(band * row_bytes);
  std::vector<float> values(band * columns);
  for (uint64_t first = 0; first < row_count; first += band) {
    const uint64_t count = std::min(band, row_count - first);
    const std::span<std::byte> read = std::span(rows).first(count * row_bytes);
    const std::span<float> decoded = std::span(values).first(count * columns);
    OUTRIDER_RETURN_IF_ERROR(model.ReadRows(tensor, first, count, read));
    model.Forget(tensor, first, count);
    const absl::Status status = Dequantize(tensor.type, read, decoded);
    if (!status.ok()) return Annotate(status, Concat(path, ": tensor ", tensor.name));
    const auto found =
        std::ranges::find_if(decoded, [](float value) { return !std::isfinite(value); });
    if (found == decoded.end()) continue;
    const auto at = static_cast<uint64_t>(found - decoded.begin());
    return UnsoundWeight{first + at / columns, at % columns, *found};
  }
  return std::nullopt;
}

}  // namespace outrider
