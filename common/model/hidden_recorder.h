// Keeps what the residual stream is after some layers of a run, for whoever trains on it.
//
//   HiddenRecorder recorder({4, 5, 6}, spec.embedding_length, row_count_max);
//   OUTRIDER_RETURN_IF_ERROR(transformer.Forward(batch, &recorder));
//   recorder.hidden(1)          // [rows, embedding_length]: after layer 5, row i is batch row i
//   transformer.hidden(i)       // after the last layer
//
// Before the final norm, as exits see it. Kept until the next run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/model/layer_observer.h"

namespace outrider {

class HiddenRecorder final : public LayerObserver {
 public:
  // Not after the last layer, which the transformer itself keeps.
  HiddenRecorder(std::vector<uint32_t> layers, uint32_t embedding_length, uint32_t row_count_max)
      : layers_(std::move(layers)), states_(layers_.size()) {
    for (auto& state : states_) state.reserve(size_t{row_count_max} * embedding_length);
  }

  std::span<const uint32_t> layers() const { return layers_; }
  // After layers()[i].
  std::span<const float> hidden(size_t i) const { return states_[i]; }

  void AfterLayer(uint32_t layer, LayerView& view) override {
    const auto found = std::ranges::find(layers_, layer);
    if (found == layers_.end()) return;
    std::vector<float>& state = states_[static_cast<size_t>(found - layers_.begin())];
    state.clear();
    for (size_t i = 0; i < view.rows().size(); ++i) {
      const std::span<const float> row = view.hidden(i);
      state.insert(state.end(), row.begin(), row.end());
    }
  }

 private:
  const std::vector<uint32_t> layers_;
  std::vector<std::vector<float>> states_;  // by place in layers_
};

}  // namespace outrider
