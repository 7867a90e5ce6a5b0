// Attention of rows over paged keys and values (NUMERICS.md, section 6): committed cells, drafted
// ancestors and a row's own, in the runs that a batch gives (kernels/attention.h). What is masked
// is what is in no run.
//
// A block is a row and a query head. Each of its warps takes a chunk of 32 positions, a lane a
// slot; the chunks of a round are then merged in order, a thread a part of the result. Chunks are
// cut by position, so the bits are the same wherever keys are stored and whoever else is in the
// run.
//
//   grid: rows, head_count
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/matrix_fragments.h"
#include "common/cuda/block/shared_bytes.h"
#include "common/cuda/block/sum_lanes.h"
#include "common/kernels/attention.h"

namespace outrider::gpu {

// The keys one row sees.
struct SeenRuns {
  uint32_t first_index;  // of the first run
  uint32_t chunk_count;  // that they are cut into
  uint32_t first_chunk;  // chunk c has runs [chunk_runs[first_chunk + c], ... + c + 1])
};

struct AttendRows {
  static constexpr const char* kName = "attend";
  static constexpr uint32_t kWarps = 4;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kPartsMax = kHeadLengthMax / kThreads;
  static constexpr uint32_t kLaneParts = kHeadLengthMax / kWarpLanes;

  const float* query;          // [rows, head_count, key_length]
  float* out;                  // [rows, head_count, value_length]
  const SeenRuns* seen;        // [rows]
  const uint32_t* chunk_runs;  // by chunk of all rows, and one more
  const KeyRun* runs;
  uint32_t head_count;
  uint32_t kv_head_count;
  uint32_t key_length;  // 1..kHeadLengthMax, as is value_length
  uint32_t value_length;
  float scale;
  size_t keys_at;  // of slot 0 of the first head, in halves from a page's beginning
  size_t values_at;
  uint32_t slot_count;           // of a page
  float soft_cap = 0.0f;         // of scores; 0: none
  const float* sinks = nullptr;  // [head_count]: scores without values; null: none

  OUTRIDER_HD size_t SharedBytes() const {
    return SharedBytesOf<float>(key_length) + 2 * SharedBytesOf<float>(kThreads) +
           SharedBytesOf<uint64_t>(kThreads) + SharedBytesOf<float>(kWarps * value_length) +
           2 * SharedBytesOf<float>(kWarps);
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    const uint32_t head = block.y();
    const SeenRuns here = seen[row];
    const auto q = block.template Share<float>(key_length);
    const auto scores = block.template Share<float>(kThreads);
    const auto weights = block.template Share<float>(kThreads);
    const auto values = block.template Share<uint64_t>(kThreads);  // addresses; 0: not seen
    const auto outs = block.template Share<float>(kWarps * value_length);
    const auto maxima = block.template Share<float>(kWarps);
    const auto totals = block.template Share<float>(kWarps);
    auto states = block.template Private<State>();

    block.Each([&](uint32_t t) {
      for (uint32_t i = t; i < key_length; i += kThreads) {
        q.Set(t, i, query[(row * head_count + head) * key_length + i]);
      }
    });
    block.Sync();
    for (uint32_t first = 0; first < here.chunk_count; first += kWarps) {
      block.Each([&](uint32_t t) {
        const Pair<const uint16_t*> cell = CellOf(here, first + t / kWarpLanes, LaneOf(t), head);
        scores.Set(t, t, cell.first == nullptr ? 0.0f : Score(q, t, cell.first));
        values.Set(t, t, reinterpret_cast<uint64_t>(cell.second));
      });
      block.Sync();
      block.Each([&](uint32_t t) {
        const uint32_t warp = t - LaneOf(t);
        float max = -Infinity();
        for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
          if (values.Get(t, warp + lane) == 0) continue;
          const float score = scores.Get(t, warp + lane);
          if (score > max) max = score;
        }
        const bool is_seen = values.Get(t, t) != 0;
        weights.Set(t, t, is_seen ? Exp(scores.Get(t, t) - max) : 0.0f);
        if (LaneOf(t) == 0) maxima.Set(t, t / kWarpLanes, max);
      });
      block.Sync();
      block.Each([&](uint32_t t) {
        WeighValues(weights, values, t, outs);
        if (LaneOf(t) == 0) totals.Set(t, t / kWarpLanes, Total(weights, values, t));
      });
      block.Sync();
      block.Each([&](uint32_t t) {
        for (uint32_t warp = 0; warp < kWarps && first + warp < here.chunk_count; ++warp) {
          Merge(maxima.Get(t, warp), totals.Get(t, warp), outs, warp, t, first + warp == 0,
                states[t]);
        }
      });
      block.Sync();
    }
    block.Each([&](uint32_t t) {
      const float r = sinks == nullptr ? 1.0f / states[t].sum : ShareBeside(sinks[head], states[t]);
      for (uint32_t part = 0; part < kPartsMax; ++part) {
        const uint32_t i = part * kThreads + t;
        if (i >= value_length) continue;
        out[(row * head_count + head) * value_length + i] = states[t].out[part] * r;
      }
    });
  }

 private:
  // All chunks so far, not yet divided by the sum of their weights. A thread has the elements t,
  // t + kThreads, ... of the result.
  struct State {
    float max;
    float sum;
    float out[kPartsMax];
  };

  // What the keys weigh beside a score that has no value.
  static OUTRIDER_HD float ShareBeside(float sink, const State& state) {
    const float larger = sink > state.max ? sink : state.max;
    const float a = Exp(state.max - larger);
    return a / Fma(state.sum, a, Exp(sink - larger));
  }

  // Key and value of a chunk's slot, where the row sees one there.
  OUTRIDER_HD Pair<const uint16_t*> CellOf(const SeenRuns& here, uint32_t chunk, uint32_t slot,
                                           uint32_t head) const {
    if (chunk >= here.chunk_count) return {nullptr, nullptr};
    uint32_t begin = chunk == 0 ? here.first_index % kChunk : 0;
    const uint32_t last = chunk_runs[here.first_chunk + chunk + 1];
    for (uint32_t i = chunk_runs[here.first_chunk + chunk]; i < last; ++i) {
      const KeyRun run = runs[i];
      if (slot < begin) break;
      if (slot < begin + run.count) {
        const size_t kv_head = head / (head_count / kv_head_count);
        const size_t cell = kv_head * slot_count + run.slot + (slot - begin);
        return {run.page + keys_at + cell * key_length, run.page + values_at + cell * value_length};
      }
      begin += run.count;
    }
    return {nullptr, nullptr};
  }

  template <typename Shared>
  OUTRIDER_HD float Score(const Shared& q, uint32_t t, const uint16_t* key) const {
    float sums[kSumLanes] = {};
    for (uint32_t i = 0; i < key_length; i += kSumLanes) {
      for (uint32_t lane = 0; lane < kSumLanes; ++lane) {
        if (i + lane >= key_length) continue;
        sums[lane] = Fma(q.Get(t, i + lane), WidenHalf(key[i + lane]), sums[lane]);
      }
    }
    const float score = FoldLanes(sums) * scale;
    return soft_cap == 0.0f ? score : SoftCap(score, soft_cap);
  }

  // The sum of a chunk's weights: slots j and j + 16 share a lane.
  template <typename Weights, typename Values>
  static OUTRIDER_HD float Total(const Weights& weights, const Values& values, uint32_t t) {
    float sums[kSumLanes] = {};
    for (uint32_t slot = 0; slot < kWarpLanes; ++slot) {
      if (values.Get(t, t + slot) == 0) continue;
      sums[slot % kSumLanes] = sums[slot % kSumLanes] + weights.Get(t, t + slot);
    }
    return FoldLanes(sums);
  }

  // A lane has the elements lane, lane + 32, ... of its warp's chunk; positions ascend.
  template <typename Weights, typename Values, typename Outs>
  OUTRIDER_HD void WeighValues(const Weights& weights, const Values& values, uint32_t t,
                               const Outs& outs) const {
    const uint32_t warp = t - LaneOf(t);
    float sums[kLaneParts] = {};
    for (uint32_t slot = 0; slot < kWarpLanes; ++slot) {
      const auto* const value = reinterpret_cast<const uint16_t*>(values.Get(t, warp + slot));
      if (value == nullptr) continue;
      const float weight = weights.Get(t, warp + slot);
      for (uint32_t part = 0; part < kLaneParts; ++part) {
        const uint32_t i = part * kWarpLanes + LaneOf(t);
        if (i < value_length) sums[part] = Fma(weight, WidenHalf(value[i]), sums[part]);
      }
    }
    for (uint32_t part = 0; part < kLaneParts; ++part) {
      const uint32_t i = part * kWarpLanes + LaneOf(t);
      if (i < value_length) outs.Set(t, warp / kWarpLanes * value_length + i, sums[part]);
    }
  }

  template <typename Outs>
  OUTRIDER_HD void Merge(float max, float sum, const Outs& outs, uint32_t warp, uint32_t t,
                         bool is_first, State& state) const {
    const float larger = max > state.max ? max : state.max;
    const float a = Exp(state.max - larger), b = Exp(max - larger);
    for (uint32_t part = 0; part < kPartsMax; ++part) {
      const uint32_t i = part * kThreads + t;
      if (i >= value_length) continue;
      const float value = outs.Get(t, warp * value_length + i);
      state.out[part] = is_first ? value : Fma(state.out[part], a, value * b);
    }
    state.sum = is_first ? sum : Fma(state.sum, a, sum * b);
    state.max = is_first ? max : larger;
  }
};

}  // namespace outrider::gpu
