// Experts (NUMERICS.md, section 7): which ones a row goes to, their rows grouped so that a product
// reads what an expert is asked by any row once, and what they come to.
//
// How many rows each expert gets is known on the device alone, and a grid only by how many rows a
// run has. So products are asked for as many tiles as there could be, and those beyond what there
// are have no rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/float_order.h"
#include "common/cuda/block/shared_bytes.h"
#include "common/cuda/block/sum_lanes.h"
#include "common/cuda/kernels/products.h"

namespace outrider::gpu {

// The used_count experts a row's router likes best, best first, and how much they weigh: a rank is
// how many are better. Whatever the router says they have an order; a row whose router says
// NaN comes to NaN wherever it goes. grid: rows
struct RouteRows {
  static constexpr const char* kName = "route";
  static constexpr uint32_t kThreads = 128;

  const float* logits;  // [rows, expert_count]
  uint32_t* chosen;     // [rows, used_count]
  float* weights;       // [rows, used_count]
  uint32_t expert_count;
  uint32_t used_count;
  bool renormalize;

  OUTRIDER_HD size_t SharedBytes() const {
    return SharedBytesOf<uint32_t>(expert_count) + SharedBytesOf<float>(expert_count) +
           SharedBytesOf<uint32_t>(used_count) + SharedBytesOf<float>(kSumLanes);
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    const float* const of_row = logits + row * expert_count;
    const auto orders = block.template Share<uint32_t>(expert_count);
    const auto exps = block.template Share<float>(expert_count);
    const auto best = block.template Share<uint32_t>(used_count);
    const auto lanes = block.template Share<float>(kSumLanes);
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) orders.Set(t, e, OrderOf(of_row[e]));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) {
        const uint32_t rank = RankOf(orders, t, e);
        if (rank < used_count) best.Set(t, rank, e);
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const float largest = of_row[best.Get(t, 0)];
      for (uint32_t e = t; e < expert_count; e += kThreads) {
        exps.Set(t, e, Exp(of_row[e] - largest));
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      float sum = 0.0f;
      for (uint32_t e = t; e < expert_count; e += kSumLanes) sum = sum + exps.Get(t, e);
      lanes.Set(t, t, sum);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= used_count) return;
      const float sum = FoldShared(lanes, t);
      float used_sum = 0.0f;
      for (uint32_t j = 0; j < used_count; ++j) {
        used_sum = used_sum + exps.Get(t, best.Get(t, j)) / sum;
      }
      for (uint32_t j = t; j < used_count; j += kThreads) {
        const float p = exps.Get(t, best.Get(t, j)) / sum;
        chosen[row * used_count + j] = best.Get(t, j);
        weights[row * used_count + j] = renormalize ? p / used_sum : p;
      }
    });
  }

 private:
  // Of equal ones the first is better.
  template <typename Orders>
  OUTRIDER_HD uint32_t RankOf(const Orders& orders, uint32_t t, uint32_t expert) const {
    const uint32_t order = orders.Get(t, expert);
    uint32_t rank = 0;
    for (uint32_t e = 0; e < expert_count; ++e) {
      const uint32_t other = orders.Get(t, e);
      if (other > order || (other == order && e < expert)) ++rank;
    }
    return rank;
  }
};

// All choices of one expert get places that follow one another, by rising row, and experts do; and
// tiles of eight places are cut. A thread has an expert, so that nothing depends on who is first.
// grid: 1
struct GroupChoices {
  static constexpr const char* kName = "group choices";
  static constexpr uint32_t kThreads = 256;

  const uint32_t* chosen;  // [choice_count], of one row after the other
  uint32_t* place_of;      // [choice_count]
  uint32_t* row_at;        // [choice_count], by place
  ExpertTile* tiles;       // [tile_count]
  uint32_t choice_count;
  uint32_t used_count;
  uint32_t expert_count;
  uint32_t tile_count;  // TileCount()

  // How many there could be: every expert in use may leave one that is not full.
  static OUTRIDER_HD uint32_t TileCount(uint32_t choice_count, uint32_t expert_count) {
    const uint32_t in_use = choice_count < expert_count ? choice_count : expert_count;
    return (choice_count + (kTileRows - 1) * in_use) / kTileRows;
  }

  OUTRIDER_HD size_t SharedBytes() const { return SharedBytesOf<uint32_t>(expert_count); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const auto counts = block.template Share<uint32_t>(expert_count);
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) {
        uint32_t count = 0;
        for (uint32_t c = 0; c < choice_count; ++c) {
          if (chosen[c] == e) ++count;
        }
        counts.Set(t, e, count);
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) PlaceThoseOf(e, counts, t);
      const Before all = CountBefore(expert_count, counts, t);
      for (uint32_t i = all.tiles + t; i < tile_count; i += kThreads) tiles[i] = {0, 0, 0};
    });
  }

 private:
  // What the experts before one have.
  struct Before {
    uint32_t places;
    uint32_t tiles;
  };

  template <typename Counts>
  static OUTRIDER_HD Before CountBefore(uint32_t expert, const Counts& counts, uint32_t t) {
    Before before = {0, 0};
    for (uint32_t e = 0; e < expert; ++e) {
      const uint32_t count = counts.Get(t, e);
      before.places += count;
      before.tiles += (count + kTileRows - 1) / kTileRows;
    }
    return before;
  }

  template <typename Counts>
  OUTRIDER_HD void PlaceThoseOf(uint32_t expert, const Counts& counts, uint32_t t) const {
    const Before before = CountBefore(expert, counts, t);
    const uint32_t end = before.places + counts.Get(t, expert);
    uint32_t place = before.places;
    for (uint32_t c = 0; c < choice_count; ++c) {
      if (chosen[c] != expert) continue;
      place_of[c] = place;
      row_at[place++] = c / used_count;
    }
    uint32_t tile = before.tiles;
    for (uint32_t first = before.places; first < end; first += kTileRows) {
      const uint32_t last = first + kTileRows < end ? first + kTileRows : end;
      tiles[tile++] = {expert, first, last};
    }
  }
};

// to[i] = from[which[i]]. grid: rows of `to`
struct GatherRows {
  static constexpr const char* kName = "gather";
  static constexpr uint32_t kThreads = 256;

  const float* from;      // [any, length]
  const uint32_t* which;  // [rows]
  float* to;              // [rows, length]
  uint32_t length;

  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    const float* const of_row = from + size_t{which[row]} * length;
    block.Each([&](uint32_t t) {
      for (uint32_t i = t; i < length; i += kThreads) to[row * length + i] = of_row[i];
    });
  }
};

// What a row's experts come to, best first, and then the expert that every row goes to, where there
// is one. grid: rows, length / 256 rounded up
struct SumExperts {
  static constexpr const char* kName = "sum experts";
  static constexpr uint32_t kThreads = 256;

  const float* answers;      // [choices, length], by place
  const uint32_t* place_of;  // [rows, used_count]
  const float* weights;      // [rows, used_count]
  const float* shared;       // [rows, length]; null: there is none
  const float* shared_gate;  // [rows]
  float* out;                // [rows, length]
  uint32_t length;
  uint32_t used_count;

  OUTRIDER_HD uint32_t grid_y() const { return (length + kThreads - 1) / kThreads; }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    block.Each([&](uint32_t t) {
      const uint32_t i = block.y() * kThreads + t;
      if (i >= length) return;
      float sum = Term(row * used_count, i);
      for (uint32_t j = 1; j < used_count; ++j) sum = sum + Term(row * used_count + j, i);
      if (shared != nullptr) {
        const float share = 1.0f / (1.0f + Exp(-shared_gate[row]));
        sum = sum + share * shared[row * length + i];
      }
      out[row * length + i] = sum;
    });
  }

 private:
  OUTRIDER_HD float Term(size_t choice, uint32_t i) const {
    return weights[choice] * answers[size_t{place_of[choice]} * length + i];
  }
};

}  // namespace outrider::gpu
