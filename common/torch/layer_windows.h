// The windows that a model's layers look through, each once, and which of them each layer has: so
// that masks are made once for all layers that share them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/model/model_spec.h"

namespace outrider {

class LayerWindows {
 public:
  // All layers are attention.
  explicit LayerWindows(const ModelSpec& spec) {
    for (const LayerSpec& layer : spec.layers) {
      const auto& window = layer.attention()->window;
      const auto same = std::ranges::find(windows_, window);
      of_layer_.push_back(static_cast<size_t>(same - windows_.begin()));
      if (same == windows_.end()) windows_.push_back(window);
    }
  }

  std::span<const std::optional<uint32_t>> windows() const { return windows_; }
  size_t of(uint32_t layer) const { return of_layer_[layer]; }

 private:
  std::vector<std::optional<uint32_t>> windows_;  // none: everything is seen
  std::vector<size_t> of_layer_;
};

}  // namespace outrider
