// Rows that were made for this machine's kernels as a GPU wants them (kernels/gpu_rows.h), in memory
// of their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/gpu_rows.h"
#include "common/kernels/activations.h"
#include "common/kernels/testing/product_inputs.h"

namespace outrider::gpu {

class RowsOnGpu {
 public:
  // In blocks of `block`; floats have 1, and are as they are. Row 0 is the `first_slot`-th of a tile.
  RowsOnGpu(const ActivationRows& x, uint32_t block, uint32_t first_slot = 0)
      : quants_(Bytes(0)), scales_(Bytes(0)), sums_(Bytes(0)) {
    view_.row_count = x.row_count;
    view_.inputs = x.inputs;
    if (block == 1) {
      view_.values = x.values;
      view_.value_stride = x.value_stride;
      return;
    }
    const RowTiles tiles = {x.inputs, block};
    const size_t tile_count = RowTiles::Count(x.row_count);
    quants_ = Bytes(tile_count * tiles.QuantsOfTile());
    scales_ = Bytes(tile_count * tiles.ScalesOfTile() * sizeof(float));
    sums_ = Bytes(tile_count * tiles.SumsOfTile() * sizeof(int16_t));
    auto* const quants = reinterpret_cast<int8_t*>(quants_.data());
    auto* const scales = reinterpret_cast<float*>(scales_.data());
    auto* const sums = reinterpret_cast<int16_t*>(sums_.data());
    for (uint32_t row = 0; row < x.row_count; ++row) {
      const uint32_t to = first_slot + row;
      for (uint32_t k = 0; k < x.inputs; ++k) {
        quants[tiles.Quant(to, k)] = x.quants[row * x.quant_stride + k];
      }
      for (uint32_t b = 0; b < x.inputs / block; ++b) {
        scales[tiles.Scale(to, b)] = x.scales[b * x.scale_stride + row];
      }
      for (uint32_t i = 0; i < x.inputs / 16; ++i) {
        sums[tiles.Sum(to, i)] = x.sums[row * x.sum_stride + i];
      }
    }
    view_.quants = quants;
    view_.scales = scales;
    view_.sums = sums;
    view_.block = block;
    view_.first_slot = first_slot;
  }
  RowsOnGpu(const RowsOnGpu&) = delete;
  RowsOnGpu& operator=(const RowsOnGpu&) = delete;

  const GpuRows& View() const { return view_; }
  size_t quant_bytes() const { return quants_.size(); }
  size_t scale_bytes() const { return scales_.size(); }
  size_t sum_bytes() const { return sums_.size(); }

 private:
  Bytes quants_, scales_, sums_;
  GpuRows view_;
};

}  // namespace outrider::gpu
