// Rows join the residual stream and are normed, in one go:
//
//   stream = stream + part           where there is a part
//   out    = norm(stream)            where there is a norm
//   out    = stream                  where there is none
//
// NUMERICS.md, sections 2 and 6. A block is a row; sixteen of its threads are the sixteen lanes of
// a sum, which is as parallel as the contract lets it be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/arithmetic.h"

namespace outrider::gpu {

inline constexpr uint32_t kSumLanes = 16;

// Any thread, after a Sync(): what the sixteen lanes come to.
template <typename Shared>
OUTRIDER_HD float FoldLanes(const Shared& lanes, uint32_t thread) {
  float sums[kSumLanes];
  for (uint32_t lane = 0; lane < kSumLanes; ++lane) sums[lane] = lanes.Get(thread, lane);
  for (uint32_t width = kSumLanes / 2; width > 0; width /= 2) {
    for (uint32_t lane = 0; lane < width; ++lane) sums[lane] = sums[lane] + sums[lane + width];
  }
  return sums[0];
}

struct NormRows {
  static constexpr uint32_t kThreads = 256;

  float* stream;        // [any, length]: written to where there is a part
  const float* part;    // [rows, length]; null: nothing is added
  const float* weight;  // [length]; null: no norm
  const float* bias;    // [length]; null: an RMS norm, otherwise a layer norm
  float* out;           // [rows, length]; may be stream, may be part; null without a norm: nothing
  const uint32_t* which;  // [rows]: row i is row which[i] of the stream; null: row i
  uint32_t length;
  float epsilon;

  OUTRIDER_HD size_t SharedBytes() const {
    return (length * sizeof(float) + 15) / 16 * 16 + kSumLanes * sizeof(float);
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    float* const from = stream + (which != nullptr ? which[row] : row) * length;
    const auto x = block.template Share<float>(length);
    const auto lanes = block.template Share<float>(kSumLanes);
    block.Each([&](uint32_t t) {
      for (uint32_t i = t; i < length; i += kThreads) {
        float value = from[i];
        if (part != nullptr) {
          value = value + part[row * length + i];
          from[i] = value;
        }
        if (weight != nullptr) {
          x.Set(t, i, value);
        } else if (out != nullptr) {
          out[row * length + i] = value;
        }
      }
    });
    if (weight == nullptr) return;
    block.Sync();
    if (bias != nullptr) {
      LayerNorm(block, x, lanes, out + row * length);
    } else {
      RmsNorm(block, x, lanes, out + row * length);
    }
  }

 private:
  template <typename Block, typename Shared>
  OUTRIDER_HD void RmsNorm(Block& block, const Shared& x, const Shared& lanes, float* to) const {
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      float sum = 0.0f;
      for (uint32_t i = t; i < length; i += kSumLanes) sum = Fma(x.Get(t, i), x.Get(t, i), sum);
      lanes.Set(t, t, sum);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const float mean = FoldLanes(lanes, t) / static_cast<float>(length);
      const float r = 1.0f / sqrtf(mean + epsilon);
      for (uint32_t i = t; i < length; i += kThreads) to[i] = (x.Get(t, i) * r) * weight[i];
    });
  }

  template <typename Block, typename Shared>
  OUTRIDER_HD void LayerNorm(Block& block, const Shared& x, const Shared& lanes, float* to) const {
    auto means = block.template Private<float>();
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      float sum = 0.0f;
      for (uint32_t i = t; i < length; i += kSumLanes) sum = sum + x.Get(t, i);
      lanes.Set(t, t, sum);
    });
    block.Sync();
    block.Each([&](uint32_t t) { means[t] = FoldLanes(lanes, t) / static_cast<float>(length); });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      float sum = 0.0f;
      for (uint32_t i = t; i < length; i += kSumLanes) {
        const float off = x.Get(t, i) - means[t];
        sum = Fma(off, off, sum);
      }
      lanes.Set(t, t, sum);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const float variance = FoldLanes(lanes, t) / static_cast<float>(length);
      const float r = 1.0f / sqrtf(variance + epsilon);
      for (uint32_t i = t; i < length; i += kThreads) {
        to[i] = Fma((x.Get(t, i) - means[t]) * r, weight[i], bias[i]);
      }
    });
  }
};

}  // namespace outrider::gpu
