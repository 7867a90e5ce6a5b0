// Rows of activations to int8, in blocks of 32 or of 256 (NUMERICS.md, section 3), laid out
// as gpu_rows.h says. A warp is a block of a row.
//
//   grid: rows, blocks of a row / 8 rounded up
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/gpu_rows.h"

namespace outrider::gpu {

struct QuantizeRows {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kWarps = kThreads / kWarpLanes;
  static constexpr uint32_t kBlockMax = 256;

  const float* x;  // [any, inputs]
  int8_t* quants;
  float* scales;
  int16_t* sums;
  uint32_t inputs;
  uint32_t block_length;            // 32 or 256
  const uint32_t* which = nullptr;  // [rows]: row i is row which[i] of x; null: row i

  OUTRIDER_HD uint32_t grid_y() const { return (inputs / block_length + kWarps - 1) / kWarps; }
  OUTRIDER_HD size_t SharedBytes() const {
    return kThreads * sizeof(uint32_t) + kWarps * kBlockMax;
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t row = block.x();
    const RowTiles tiles = {inputs, block_length};
    const uint32_t first = block.y() * kWarps;
    const uint32_t block_count = inputs / block_length;
    const float* const from = x + size_t{which != nullptr ? which[row] : row} * inputs;
    const auto magnitudes = block.template Share<uint32_t>(kThreads);
    const auto made = block.template Share<int8_t>(kWarps * kBlockMax);

    // Bits of magnitudes order as the numbers do, with infinity and NaN above all.
    block.Each([&](uint32_t t) {
      const uint32_t b = first + t / kWarpLanes;
      uint32_t largest = 0;
      if (b < block_count) {
        for (uint32_t i = LaneOf(t); i < block_length; i += kWarpLanes) {
          const uint32_t bits = BitsOf(from[b * block_length + i]) & 0x7fffffffu;
          if (bits > largest) largest = bits;
        }
      }
      magnitudes.Set(t, t, largest);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const uint32_t b = first + t / kWarpLanes;
      if (b >= block_count) return;
      uint32_t largest = 0;
      for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        const uint32_t bits = magnitudes.Get(t, t - LaneOf(t) + lane);
        if (bits > largest) largest = bits;
      }
      const Pair<float> scale = ScaleOf(FloatOf(largest));
      for (uint32_t i = LaneOf(t); i < block_length; i += kWarpLanes) {
        const float v = scale.second;
        const int8_t quant =
            v == 0.0f ? int8_t{0} : static_cast<int8_t>(rintf(from[b * block_length + i] * v));
        quants[tiles.Quant(row, b * block_length + i)] = quant;
        made.Set(t, t / kWarpLanes * kBlockMax + i, quant);
      }
      if (LaneOf(t) == 0) scales[tiles.Scale(row, b)] = scale.first;
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const uint32_t b = first + t / kWarpLanes;
      if (b >= block_count || LaneOf(t) >= block_length / 16) return;
      int32_t sum = 0;
      for (uint32_t i = 0; i < 16; ++i) {
        sum += made.Get(t, t / kWarpLanes * kBlockMax + 16 * LaneOf(t) + i);
      }
      sums[tiles.Sum(row, b * (block_length / 16) + LaneOf(t))] = static_cast<int16_t>(sum);
    });
  }

 private:
  // A block's d, and the v that its elements are multiplied with, by its largest magnitude.
  static OUTRIDER_HD Pair<float> ScaleOf(float m) {
    if (!(m < Infinity())) return {FloatOf(0x7fc00000u), 0.0f};
    const float v = m == 0.0f ? 0.0f : 127.0f / m;
    if (v == Infinity()) return {0.0f, 0.0f};
    return {m / 127.0f, v};
  }
};

}  // namespace outrider::gpu
