// Somebody who looks at a run of the transformer between its layers: exits that guess the outcome
// early, and pruning that takes rows out of the rest of it.
#pragma once

#include <cstdint>
#include <span>

namespace outrider {

// The rows still in the run, after a layer. Row i of `hidden` belongs to batch row rows[i].
class LayerView {
 public:
  LayerView(std::span<const uint32_t> rows, const float* hidden, size_t stride, uint32_t length,
            std::span<bool> dropped)
      : rows_(rows), hidden_(hidden), stride_(stride), length_(length), dropped_(dropped) {}

  std::span<const uint32_t> rows() const { return rows_; }
  // Before the final norm.
  std::span<const float> hidden(size_t i) const { return {hidden_ + i * stride_, length_}; }

  // Takes row i out of the layers to come, and with it every row below it, whose keys it would be.
  void Drop(size_t i) { dropped_[i] = true; }

 private:
  std::span<const uint32_t> rows_;
  const float* hidden_;
  size_t stride_;
  uint32_t length_;
  std::span<bool> dropped_;
};

class LayerObserver {
 public:
  virtual ~LayerObserver() = default;

  // On the thread that runs the transformer, which waits. Not called after the last layer.
  virtual void AfterLayer(uint32_t layer, LayerView& view) = 0;
};

}  // namespace outrider
