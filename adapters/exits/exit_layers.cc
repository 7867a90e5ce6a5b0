#include "adapters/exits/exit_layers.h"

#include <algorithm>
#include <numeric>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kDefaultExits = 5;

absl::Status CheckDepth(uint32_t layer_count) {
  if (layer_count >= 2) return absl::OkStatus();
  return InvalidArgument("a model of ", layer_count,
                         " layers has no place for an exit, which stands between two");
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> DefaultExitLayers(uint32_t layer_count) {
  OUTRIDER_RETURN_IF_ERROR(CheckDepth(layer_count));
  const uint32_t first = (layer_count + 1) / 2 - 1;
  const uint32_t last = std::max(first, layer_count * 9 / 10 - 1);
  const uint32_t count = std::min(kDefaultExits, last - first + 1);
  std::vector<uint32_t> layers = {first};
  for (uint32_t i = 1; i < count; ++i) {
    layers.push_back(first + ((last - first) * i + (count - 1) / 2) / (count - 1));
  }
  return layers;
}

absl::StatusOr<std::vector<uint32_t>> EveryExitLayer(uint32_t layer_count) {
  OUTRIDER_RETURN_IF_ERROR(CheckDepth(layer_count));
  std::vector<uint32_t> layers(layer_count - 1);
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

absl::Status CheckExitLayers(std::span<const uint32_t> layers, uint32_t layer_count) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] + 1 >= layer_count) {
      return InvalidArgument("--layers: an exit after layer ", layers[i],
                             " would come too late in a model of ", layer_count,
                             " layers, which count from 0; the last place is after ",
                             layer_count < 2 ? 0 : layer_count - 2);
    }
    if (i > 0 && layers[i] <= layers[i - 1]) {
      return InvalidArgument("--layers: ", layers[i], " after ", layers[i - 1],
                             "; name them in rising order");
    }
  }
  return absl::OkStatus();
}

}  // namespace outrider
