// Rows join the residual stream and are normed, in one go:
//
//   stream = stream + part           where there is a part
//   out    = norm(stream)            where there is a norm
//   out    = stream                  where there is none
//
// NUMERICS.md, sections 2 and 6. A block is a row; sixteen of its threads are the sixteen lanes of
// a sum, which is as parallel as the contract lets it be. A row is short, so what takes time is
// waiting: for memory, which is asked for many elements before the first is used, and for the chain
// of a lane, which is four cycles a link as long as its elements have been read ahead.
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

// What a lane adds up of `length` elements in shared memory, add(sum, element) after add(sum,
// element). The elements of the next links are read while these are added.
template <typename Sum, typename Shared, typename Add>
OUTRIDER_HD Sum SumOfLane(const Shared& x, uint32_t lane, uint32_t length, const Add& add) {
  constexpr uint32_t kAhead = 8;
  constexpr uint32_t kStep = kAhead * kSumLanes;
  const uint32_t whole = length / kStep * kStep;
  Sum sum = 0;
  float now[kAhead] = {}, next[kAhead];
  if (whole > 0) {
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) now[j] = x.Get(lane, lane + j * kSumLanes);
  }
  for (uint32_t i = lane; i < whole; i += kStep) {
    const uint32_t ahead = i + kStep < whole ? i + kStep : i;
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) next[j] = x.Get(lane, ahead + j * kSumLanes);
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) sum = add(sum, now[j]);
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) now[j] = next[j];
  }
  OUTRIDER_UNROLL
  for (uint32_t j = 0; j < kAhead; ++j) {
    const uint32_t i = whole + lane + j * kSumLanes;
    if (i < length) now[j] = x.Get(lane, i);
  }
  OUTRIDER_UNROLL
  for (uint32_t j = 0; j < kAhead; ++j) {
    if (whole + lane + j * kSumLanes < length) sum = add(sum, now[j]);
  }
  return sum;
}

// A thread's elements first, first + kThreads and so on of a row, which are on their way at the same
// time: with no store between them, loads do not wait for one another.
template <uint32_t kThreads, uint32_t kBatch>
struct RowBatch {
  static constexpr uint32_t kCount = kBatch;
  static constexpr uint32_t kStride = kThreads * kCount;

  float values[kCount];

  // element_of(i) is element i. Past the row's end its last one is read again, since a compiler has
  // few predicates: loads that each have a condition wait for one another too.
  template <typename ElementOf>
  static OUTRIDER_HD RowBatch Make(uint32_t first, uint32_t length, const ElementOf& element_of) {
    RowBatch batch;
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kCount; ++j) {
      const uint32_t i = first + j * kThreads;
      batch.values[j] = element_of(i < length ? i : length - 1);
    }
    return batch;
  }
  static OUTRIDER_HD RowBatch Read(uint32_t first, uint32_t length, const float* row) {
    return Make(first, length, [&](uint32_t i) { return row[i]; });
  }

  // use(i, j) for element i, the j-th of a batch.
  template <typename Use>
  static OUTRIDER_HD void ForEach(uint32_t first, uint32_t length, const Use& use) {
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kCount; ++j) {
      const uint32_t i = first + j * kThreads;
      if (i < length) use(i, j);
    }
  }
};

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
    auto weights = block.template Private<Batch>();  // of the first batch, read beside the sum
    block.Each([&](uint32_t t) {
      for (uint32_t first = t; first < length; first += Batch::kStride) {
        const Batch joined = Join(from, row, first);
        if (weight != nullptr) {
          Batch::ForEach(first, length,
                         [&](uint32_t i, uint32_t j) { x.Set(t, i, joined.values[j]); });
        } else if (out != nullptr) {
          Store(joined, out + row * length, first);
        }
      }
      if (weight != nullptr) weights[t] = Batch::Read(t, length, weight);
    });
    if (weight == nullptr) return;
    block.Sync();
    if (bias != nullptr) {
      LayerNorm(block, x, lanes, weights, out + row * length);
    } else {
      RmsNorm(block, x, lanes, weights, out + row * length);
    }
  }

 private:
  using Batch = RowBatch<kThreads, 16>;  // of 4096 elements all are on their way together

  OUTRIDER_HD void Store(const Batch& batch, float* to, uint32_t first) const {
    Batch::ForEach(first, length, [&](uint32_t i, uint32_t j) { to[i] = batch.values[j]; });
  }

  OUTRIDER_HD Batch Join(float* from, size_t row, uint32_t first) const {
    Batch joined = Batch::Read(first, length, from);
    if (part == nullptr) return joined;
    const Batch added = Batch::Read(first, length, part + row * length);
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < Batch::kCount; ++j) {
      joined.values[j] = joined.values[j] + added.values[j];
    }
    Store(joined, from, first);
    return joined;
  }

  template <typename Block, typename Shared, typename Weights>
  OUTRIDER_HD void RmsNorm(Block& block, const Shared& x, const Shared& lanes, Weights& weights,
                           float* to) const {
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      lanes.Set(t, t, SumOfLane<float>(x, t, length, [](float sum, float each) {
                  return Fma(each, each, sum);
                }));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const float mean = FoldLanes(lanes, t) / static_cast<float>(length);
      const float r = 1.0f / sqrtf(mean + epsilon);
      for (uint32_t first = t; first < length; first += Batch::kStride) {
        if (first != t) weights[t] = Batch::Read(first, length, weight);
        const Batch here = Batch::Make(first, length, [&](uint32_t i) { return x.Get(t, i); });
        Batch::ForEach(first, length, [&](uint32_t i, uint32_t j) {
          to[i] = (here.values[j] * r) * weights[t].values[j];
        });
      }
    });
  }

  template <typename Block, typename Shared, typename Weights>
  OUTRIDER_HD void LayerNorm(Block& block, const Shared& x, const Shared& lanes, Weights& weights,
                             float* to) const {
    auto means = block.template Private<float>();
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      const auto add = [](float sum, float each) { return sum + each; };
      lanes.Set(t, t, SumOfLane<float>(x, t, length, add));
    });
    block.Sync();
    block.Each([&](uint32_t t) { means[t] = FoldLanes(lanes, t) / static_cast<float>(length); });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      const float mean = means[t];
      lanes.Set(t, t, SumOfLane<float>(x, t, length, [mean](float sum, float each) {
                  return Fma(each - mean, each - mean, sum);
                }));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const float variance = FoldLanes(lanes, t) / static_cast<float>(length);
      const float r = 1.0f / sqrtf(variance + epsilon);
      for (uint32_t first = t; first < length; first += Batch::kStride) {
        if (first != t) weights[t] = Batch::Read(first, length, weight);
        const Batch biases = Batch::Read(first, length, bias);
        Batch::ForEach(first, length, [&](uint32_t i, uint32_t j) {
          to[i] = Fma((x.Get(t, i) - means[t]) * r, weights[t].values[j], biases.values[j]);
        });
      }
    });
  }
};

}  // namespace outrider::gpu
