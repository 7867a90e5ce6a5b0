// The largest logit of each row, as common/tokens/maximum.h finds it: of equal ones the lowest id, and
// whether any is NaN or plus infinity. Greedy choices need no more of a row than this.
//
//   grid: rows
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/arithmetic.h"

namespace outrider::gpu {

struct BestLogit {
  float value;     // minus infinity when every logit is
  uint32_t token;  // the lowest id that has it
  bool sound;      // false: the rest means nothing
};

OUTRIDER_HD bool ComesBefore(const BestLogit& a, const BestLogit& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

OUTRIDER_HD BestLogit BetterOf(const BestLogit& a, const BestLogit& b) {
  const bool is_b = ComesBefore(b, a);
  return {is_b ? b.value : a.value, is_b ? b.token : a.token, a.sound && b.sound};
}

// What the threads have found comes together in found[0], of thread 0.
template <typename Block, typename Shared>
OUTRIDER_HD void FoldBest(Block& block, const Shared& found, uint32_t thread_count) {
  for (uint32_t width = thread_count / 2; width > 0; width /= 2) {
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t < width) found.Set(t, t, BetterOf(found.Get(t, t), found.Get(t, t + width)));
    });
  }
}

struct BestOfRows {
  static constexpr uint32_t kThreads = 256;

  const float* logits;  // [rows, length]
  BestLogit* best;      // [rows]
  uint32_t length;

  OUTRIDER_HD size_t SharedBytes() const { return kThreads * sizeof(BestLogit); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const float* const row = logits + size_t{block.x()} * length;
    const auto found = block.template Share<BestLogit>(kThreads);
    block.Each([&](uint32_t t) {
      BestLogit best_here = {-Infinity(), UINT32_MAX, true};
      for (uint32_t i = t; i < length; i += kThreads) {
        best_here = BetterOf(best_here, {row[i], i, row[i] < Infinity()});
      }
      found.Set(t, t, best_here);
    });
    FoldBest(block, found, kThreads);
    block.Each([&](uint32_t t) {
      if (t == 0) best[block.x()] = found.Get(t, 0);
    });
  }
};

}  // namespace outrider::gpu
