// The largest logit of each row, as common/tokens/maximum.h finds it: of equal ones the lowest id, and
// whether any is NaN or plus infinity. Greedy choices need no more of a row than this. A row is one
// block's, so it has as many threads as there may be, and each has many logits on their way at the
// same time: a row of 32,000 is two trips to memory.
//
//   grid: rows
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/cuda/block/matrix_fragments.h"

namespace outrider::gpu {

struct BestLogit {
  float value;     // minus infinity when every logit is
  uint32_t token;  // the lowest id that has it
  bool sound;      // false: the rest means nothing
};

// Every other comes before it.
inline constexpr BestLogit kNoLogit = {-std::numeric_limits<float>::infinity(), UINT32_MAX, true};

OUTRIDER_HD bool ComesBefore(const BestLogit& a, const BestLogit& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

OUTRIDER_HD BestLogit BetterOf(const BestLogit& a, const BestLogit& b) {
  const bool is_b = ComesBefore(b, a);
  return {is_b ? b.value : a.value, is_b ? b.token : a.token, a.sound && b.sound};
}

// What the threads have found comes together, and all of them have it: `best` of each, and then of
// all. `of_warps` has room for one of each warp, of which there are no more than lanes.
template <typename Block, typename Best, typename Shared>
OUTRIDER_HD void FoldBest(Block& block, Best& best, const Shared& of_warps, uint32_t thread_count) {
  const auto fold_warps = [&] {
    OUTRIDER_UNROLL
    for (uint32_t by = kWarpLanes / 2; by > 0; by /= 2) {
      auto others = block.OfPartners(best, by);
      block.Each([&](uint32_t t) { best[t] = BetterOf(best[t], others[t]); });
    }
  };
  fold_warps();
  block.Each([&](uint32_t t) {
    if (LaneOf(t) == 0) of_warps.Set(t, t / kWarpLanes, best[t]);
  });
  block.Sync();
  block.Each([&](uint32_t t) {
    best[t] = LaneOf(t) < thread_count / kWarpLanes ? of_warps.Get(t, LaneOf(t)) : kNoLogit;
  });
  fold_warps();
  block.Sync();
}

struct BestOfRows {
  static constexpr uint32_t kThreads = 1024;
  static constexpr uint32_t kBatch = 16;

  const float* logits;  // [rows, length]
  BestLogit* best;      // [rows]
  uint32_t length;

  OUTRIDER_HD size_t SharedBytes() const { return kThreads / kWarpLanes * sizeof(BestLogit); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const float* const row = logits + size_t{block.x()} * length;
    const auto of_warps = block.template Share<BestLogit>(kThreads / kWarpLanes);
    auto found = block.template Private<BestLogit>();
    block.Each([&](uint32_t t) { found[t] = BestOf(row, t); });
    FoldBest(block, found, of_warps, kThreads);
    block.Each([&](uint32_t t) {
      if (t == 0) best[block.x()] = found[t];
    });
  }

 private:
  // Of a thread's logits, whose ids rise, so that the first of equal ones stays. Past the row's end
  // there are some of minus infinity, with ids above all others.
  OUTRIDER_HD BestLogit BestOf(const float* row, uint32_t t) const {
    BestLogit best_here = {-Infinity(), t, true};
    for (uint32_t first = t; first < length; first += kThreads * kBatch) {
      float values[kBatch];
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kBatch; ++j) {
        const uint32_t i = first + j * kThreads;
        values[j] = i < length ? row[i] : -Infinity();
      }
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kBatch; ++j) {
        const bool is_better = values[j] > best_here.value;
        best_here.value = is_better ? values[j] : best_here.value;
        best_here.token = is_better ? first + j * kThreads : best_here.token;
        best_here.sound &= values[j] < Infinity();
      }
    }
    return best_here;
  }
};

}  // namespace outrider::gpu
