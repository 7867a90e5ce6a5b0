// Rows join the residual stream and are normed, in one go:
//
//   stream = stream + scale * part   where there is a part
//   out    = norm(stream)            where there is a norm
//
// NUMERICS.md, sections 2 and 6. A block is a row; sixteen of its threads are the sixteen lanes of
// a sum, which is as parallel as the contract lets it be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/shared_bytes.h"
#include "common/cuda/block/sum_lanes.h"

namespace outrider::gpu {

struct NormRows {
  static constexpr const char* kName = "norm";
  static constexpr uint32_t kThreads = 256;

  float* stream;          // [any, length]: written to where there is a part
  const float* part;      // [rows, length]; null: nothing is added
  const float* weight;    // [length]; null: no norm
  const float* bias;      // [length]; null: an RMS norm, otherwise a layer norm
  float* out;             // [rows, length]; may be stream, and may be part
  const uint32_t* which;  // [rows]: row i is row which[i] of the stream; null: row i
  uint32_t length;
  float epsilon;
  float scale = 1.0f;  // of the part

  OUTRIDER_HD size_t SharedBytes() const {
    return SharedBytesOf<float>(length) + SharedBytesOf<float>(kSumLanes);
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
          value = value + scale * part[row * length + i];
          from[i] = value;
        }
        x.Set(t, i, value);
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
      const float mean = FoldShared(lanes, t) / static_cast<float>(length);
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
    block.Each([&](uint32_t t) { means[t] = FoldShared(lanes, t) / static_cast<float>(length); });
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
      const float variance = FoldShared(lanes, t) / static_cast<float>(length);
      const float r = 1.0f / sqrtf(variance + epsilon);
      for (uint32_t i = t; i < length; i += kThreads) {
        to[i] = Fma((x.Get(t, i) - means[t]) * r, weight[i], bias[i]);
      }
    });
  }
};

}  // namespace outrider::gpu
