// Few logits of each row, for choosers that want no more (engine/shortlist.h): how tokens would do
// in a race, roughly, and the first so many of a row by logit or by that.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/cuda/block/float_order.h"
#include "common/cuda/block/shared_bytes.h"
#include "common/cuda/kernels/best_of_rows.h"

namespace outrider::gpu {

// What is wished of a row.
struct RowWish {
  uint32_t count = 1;
  uint32_t races = 0;
  float temperature = 1.0f;
  uint32_t key[2] = {};  // the seed, low word first
  uint32_t sample = 0;
  uint32_t index = 0;
};

// tokens/noise.h's words of four neighbouring tokens.
struct NoiseWords {
  uint32_t at[4];

  static OUTRIDER_HD NoiseWords Of(const RowWish& wish, uint32_t block) {
    NoiseWords x = {{block, wish.index, wish.sample, 0}};
    uint32_t key[2] = {wish.key[0], wish.key[1]};
    for (uint32_t round = 0; round < 10; ++round) {
      const uint64_t even = uint64_t{0xD2511F53} * x.at[0], odd = uint64_t{0xCD9E8D57} * x.at[2];
      x = {{static_cast<uint32_t>(odd >> 32) ^ x.at[1] ^ key[0], static_cast<uint32_t>(odd),
            static_cast<uint32_t>(even >> 32) ^ x.at[3] ^ key[1], static_cast<uint32_t>(even)}};
      key[0] += 0x9E3779B9;
      key[1] += 0xBB67AE85;
    }
    return x;
  }
};

// Of rows that race: scores[i] = (logit - largest) / temperature - log E, within some ulp of each
// part. Not the contract's arithmetic: who wins is decided elsewhere.
// grid: rows, length / 1024 rounded up
struct RaceRows {
  static constexpr const char* kName = "race";
  static constexpr uint32_t kThreads = 256;

  const float* logits;    // [rows, length]
  const BestLogit* best;  // [rows]
  const RowWish* wishes;  // [rows]
  float* scores;          // [rows, length]
  uint32_t length;

  OUTRIDER_HD uint32_t grid_y() const { return (length + 4 * kThreads - 1) / (4 * kThreads); }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    const RowWish wish = wishes[row];
    if (wish.races == 0) return;
    block.Each([&](uint32_t t) {
      const uint32_t four = block.y() * kThreads + t;
      if (4 * four >= length) return;
      const NoiseWords words = NoiseWords::Of(wish, four);
      for (uint32_t i = 0; i < 4 && 4 * four + i < length; ++i) {
        const size_t at = row * length + 4 * four + i;
        scores[at] = (logits[at] - best[row].value) / wish.temperature - logf(NoiseOf(words.at[i]));
      }
    });
  }

 private:
  // -log(1 - u), u = (word + 1/2) / 2^32: each half of u as a float has it exactly enough.
  static OUTRIDER_HD float NoiseOf(uint32_t word) {
    if (word < 0x80000000u) return -log1pf(-(static_cast<float>(word) + 0.5f) * 0x1p-32f);
    return -logf((static_cast<float>(~word) + 0.5f) * 0x1p-32f);
  }
};

struct ListedLogit {
  uint32_t token;
  float logit;
};

// The first `count` tokens of each row, by rising id. The last one's value is found bit after bit,
// from the highest: as many as are wanted must be no less. grid: rows
struct ShortlistRows {
  static constexpr const char* kName = "shortlist";
  static constexpr uint32_t kThreads = 1024;
  static constexpr uint32_t kGroups = 32;
  static constexpr uint32_t kGroupThreads = kThreads / kGroups;

  const float* logits;    // [rows, length]
  const float* scores;    // [rows, length], of rows that race
  const RowWish* wishes;  // [rows]
  ListedLogit* listed;    // [rows, list_length]
  float* last_scores;     // [rows]: minus infinity where nobody is left out
  uint32_t length;
  uint32_t list_length;

  OUTRIDER_HD size_t SharedBytes() const {
    return 2 * (SharedBytesOf<uint32_t>(kThreads) + SharedBytesOf<uint32_t>(kGroups));
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    const float* const values = (wishes[row].races != 0 ? scores : logits) + row * length;
    const uint32_t wanted = wishes[row].count < length ? wishes[row].count : length;
    const auto counts = block.template Share<uint32_t>(kThreads);
    const auto ties = block.template Share<uint32_t>(kThreads);
    const auto sums = block.template Share<uint32_t>(kGroups);
    const auto tie_sums = block.template Share<uint32_t>(kGroups);
    auto last = block.template Private<uint32_t>();
    block.Each([&](uint32_t t) { last[t] = 0; });
    for (uint32_t bit = 0x80000000u; bit != 0; bit /= 2) {
      NarrowLast(block, values, wanted, bit, counts, sums, last);
    }
    block.Each([&](uint32_t t) { CountOwn(values, last[t], t, counts, ties); });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kGroups) return;
      sums.Set(t, t, SumOf(counts, t, t * kGroupThreads, (t + 1) * kGroupThreads));
      tie_sums.Set(t, t, SumOf(ties, t, t * kGroupThreads, (t + 1) * kGroupThreads));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const Before before = {SumBefore(counts, sums, t), SumBefore(ties, tie_sums, t)};
      ListOwn(row, values, last[t], wanted - SumOf(sums, t, 0, kGroups), t, before);
      if (t == 0) last_scores[row] = wanted == length ? -Infinity() : FloatOfOrder(last[t]);
    });
  }

 private:
  // What the threads before one have: tokens above the last, and tokens that equal it.
  struct Before {
    uint32_t above;
    uint32_t equal;
  };

  template <typename Shared>
  static OUTRIDER_HD uint32_t SumOf(const Shared& values, uint32_t t, uint32_t begin,
                                    uint32_t end) {
    uint32_t sum = 0;
    for (uint32_t i = begin; i < end; ++i) sum += values.Get(t, i);
    return sum;
  }

  // Over the threads before one, by the sums of whole groups of them.
  template <typename Shared>
  static OUTRIDER_HD uint32_t SumBefore(const Shared& values, const Shared& group_sums,
                                        uint32_t t) {
    const uint32_t group = t / kGroupThreads;
    return SumOf(group_sums, t, 0, group) + SumOf(values, t, group * kGroupThreads, t);
  }

  // Whether that many are no less than the last would be with this bit in it.
  template <typename Block, typename Shared, typename Last>
  OUTRIDER_HD void NarrowLast(Block& block, const float* values, uint32_t wanted, uint32_t bit,
                              const Shared& counts, const Shared& sums, Last& last) const {
    block.Each([&](uint32_t t) {
      uint32_t count = 0;
      for (uint32_t i = t; i < length; i += kThreads) {
        if (OrderOf(values[i]) >= (last[t] | bit)) ++count;
      }
      counts.Set(t, t, count);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kGroups) return;
      uint32_t sum = 0;
      for (uint32_t i = t; i < kThreads; i += kGroups) sum += counts.Get(t, i);
      sums.Set(t, t, sum);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (SumOf(sums, t, 0, kGroups) >= wanted) last[t] |= bit;
    });
  }

  // A thread's own tokens follow one another, so that lists rise.
  OUTRIDER_HD uint32_t Begin(uint32_t t) const {
    const uint64_t begin = uint64_t{t} * ((length + kThreads - 1) / kThreads);
    return begin < length ? static_cast<uint32_t>(begin) : length;
  }

  template <typename Shared>
  OUTRIDER_HD void CountOwn(const float* values, uint32_t last, uint32_t t, const Shared& counts,
                            const Shared& ties) const {
    uint32_t above = 0, equal = 0;
    for (uint32_t i = Begin(t); i < Begin(t + 1); ++i) {
      const uint32_t order = OrderOf(values[i]);
      if (order > last) ++above;
      if (order == last) ++equal;
    }
    counts.Set(t, t, above);
    ties.Set(t, t, equal);
  }

  // Those above the last, and of those that equal it the `equal_count` lowest ids.
  OUTRIDER_HD void ListOwn(size_t row, const float* values, uint32_t last, uint32_t equal_count,
                           uint32_t t, Before before) const {
    for (uint32_t i = Begin(t); i < Begin(t + 1); ++i) {
      const uint32_t order = OrderOf(values[i]);
      if (order > last || (order == last && before.equal < equal_count)) {
        const uint32_t equal = before.equal < equal_count ? before.equal : equal_count;
        listed[row * list_length + before.above + equal] = {i, logits[row * length + i]};
      }
      if (order > last) ++before.above;
      if (order == last) ++before.equal;
    }
  }
};

}  // namespace outrider::gpu
