// Products of rows in int8 with quantised weights (products.h), by tensor cores. A result is one
// float to which block after block is added, in order (NUMERICS.md, section 4), so what can be done
// side by side is everything but that: a warp takes a strip of blocks of a panel, as many as keep
// its loads in flight, and makes of each block a term, an exact integer and the factor it counts
// with.
//
//   dealt strips   few rows of few panels: a panel's strips are dealt to the warps of a block, so
//                  that weights are asked for by all warps at once; terms meet in shared memory,
//                  where one thread for two outputs and a row adds them up, round after round
//   own rows       more: every warp has rows of its own, goes through all strips of a panel, and
//                  keeps the sums. Warps that have the same panel find it in the cache.
//
// What the strips after this one need is on its way while it is multiplied. Which is chosen when:
// product_choice.h.
//
//   grid: rows / kRows rounded up, panels
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/gpu_rows.h"
#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/quant_blocks.h"

namespace outrider::gpu {

// Where a warp is at work: blocks [first_block, first_block + block_count) of a panel, a strip of them
// or what is left of one.
struct StripPlace {
  uint32_t first_block, block_count;
};

template <typename Type>
OUTRIDER_HD StripPlace StripAt(uint32_t inputs, uint32_t first_block) {
  const uint32_t end = inputs / Type::kBlock;
  if (first_block >= end) return {first_block, 0};
  return {first_block, first_block + Type::kStrip < end ? Type::kStrip : end - first_block};
}

// use(i) for each block of a strip. Whole strips are another loop, whose addresses differ by constants.
template <typename Type, typename Use>
OUTRIDER_HD void ForBlocks(const StripPlace& place, const Use& use) {
  if (place.block_count == Type::kStrip) {
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < Type::kStrip; ++i) use(i);
  } else {
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i + 1 < Type::kStrip; ++i) {
      if (i < place.block_count) use(i);
    }
  }
}

// What a lane has of a strip's weights: of two outputs.
template <typename Type>
struct Strip {
  LaneBlock<Type> blocks[Type::kStrip];
};

template <typename Type>
OUTRIDER_HD void LoadStrip(const std::byte* panel, uint32_t inputs, uint32_t first_block,
                           uint32_t thread, Strip<Type>& strip) {
  const PanelBlock first = BlockOf<Type>(panel, inputs, first_block);
  ForBlocks<Type>(StripAt<Type>(inputs, first_block), [&](uint32_t i) {
    Type::Load(first.Next(i * Type::kLines, i * Type::kHalves), thread, strip.blocks[i]);
  });
}

// Where a lane finds its rows: of a tile, the one whose quants it loads, and the two whose sums it
// has. What is made of rows beyond the last is not stored.
template <uint32_t kTiles>
struct LaneRows {
  const int8_t* quants[kTiles];
  const float* scales[kTiles][2];
  const int16_t* sums[kTiles][2];

  OUTRIDER_HD void Find(const GpuRows& x, uint32_t first_row, uint32_t thread) {
    const RowTiles tiles = {x.inputs, x.block};
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      uint32_t row = first_row + tile * kTileRows;
      if (row >= x.row_count) row = 0;  // a tile without rows: whatever lies there
      row += x.first_slot;
      quants[tile] = x.quants + tiles.Quant(row + GroupOf(thread), 0);
      OUTRIDER_UNROLL
      for (uint32_t r = 0; r < 2; ++r) {
        scales[tile][r] = x.scales + tiles.Scale(row + RowOfSum(thread, r), 0);
        sums[tile][r] = x.sums + tiles.Sum(row + RowOfSum(thread, r), 0);
      }
    }
  }
};

// Quants from input `k` of a tile on are where those of its first input are, and so much further.
OUTRIDER_HD size_t QuantsOn(uint32_t k) {
  return size_t{k / RowTiles::kQuants} * (RowTiles::kQuants * kTileRows) + k % RowTiles::kQuants;
}

// The lane's part of eight rows, of a tile of a block.
template <typename Type>
OUTRIDER_HD RowFragment RowTile(const int8_t* at, uint32_t thread) {
  struct alignas(8) Two {
    uint32_t at[2];
  };
  if constexpr (Type::kTileStep < kTileInputs) {
    return {{*reinterpret_cast<const uint32_t*>(at + 4 * PlaceOf(thread)), 0}};
  } else if constexpr (Type::kNeighbours) {
    const Two two = *reinterpret_cast<const Two*>(at + 8 * PlaceOf(thread));
    return {{two.at[0], two.at[1]}};
  } else {
    return {{*reinterpret_cast<const uint32_t*>(at + 4 * PlaceOf(thread)),
             *reinterpret_cast<const uint32_t*>(at + 4 * PlaceOf(thread) + kTileInputs / 2)}};
  }
}

// What is added to the sums of a lane's two outputs and one row: y = Fma(value, factor, y).
struct alignas(16) TermPair {
  float value[2];
  float factor[2];

  OUTRIDER_HD void AddTo(float (&sums)[2]) const {
    sums[0] = Fma(value[0], factor[0], sums[0]);
    sums[1] = Fma(value[1], factor[1], sums[1]);
  }
};

// Those of a strip, in order. A lane has two rows of a tile.
template <typename Type, uint32_t kTiles>
struct StripTerms {
  static constexpr uint32_t kOfBlock = Type::kHasMinimum ? 2 : 1;
  TermPair pairs[Type::kStrip * kOfBlock][kTiles][2];

  // use(i, tile, r, pair) for all of the blocks that there are.
  template <typename Use>
  OUTRIDER_HD void ForPairs(const StripPlace& place, const Use& use) const {
    ForBlocks<Type>(place, [&](uint32_t i) {
      OUTRIDER_UNROLL
      for (uint32_t j = i * kOfBlock; j < (i + 1) * kOfBlock; ++j) {
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          OUTRIDER_UNROLL
          for (uint32_t r = 0; r < 2; ++r) use(j, tile, r, pairs[j][tile][r]);
        }
      }
    });
  }
};

// Terms of blocks whose sums are single tiles'.
template <typename Type, uint32_t kTiles>
struct PlainTerms {
  // What a lane has of a strip.
  struct Work {
    Strip<Type> weights;
    RowFragment rows[Type::kStrip][kTiles];
    float dx[kTiles][2][Type::kStrip];
  };

  static OUTRIDER_HD void Load(const std::byte* panel, const GpuRows& x, uint32_t first_block,
                               uint32_t thread, const LaneRows<kTiles>& rows, Work& work) {
    struct alignas(16) Four {
      float at[4];
    };
    static_assert(Type::kStrip == RowTiles::kScales && Type::kBlock == RowTiles::kQuants);
    const StripPlace place = StripAt<Type>(x.inputs, first_block);
    if (place.block_count == 0) return;
    LoadStrip<Type>(panel, x.inputs, first_block, thread, work.weights);
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const size_t begin = size_t{first_block} * kTileRows;
      ForBlocks<Type>(place, [&](uint32_t i) {
        work.rows[i][tile] =
            RowTile<Type>(rows.quants[tile] + (begin + i * kTileRows) * Type::kBlock, thread);
      });
      OUTRIDER_UNROLL
      for (uint32_t r = 0; r < 2; ++r) {
        const Four four = *reinterpret_cast<const Four*>(rows.scales[tile][r] + begin);
        OUTRIDER_UNROLL
        for (uint32_t i = 0; i < Type::kStrip; ++i) work.dx[tile][r][i] = four.at[i];
      }
    }
  }

  template <typename Block, typename Works, typename Terms>
  static OUTRIDER_HD void Make(Block& block, Works& works, Terms& terms) {
    struct Lane {
      WeightFragment weights;
      SumFragment tiles[kTiles];
    };
    auto lanes = block.template Private<Lane>();
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < Type::kStrip; ++i) {
      block.Each([&](uint32_t t) {
        lanes[t].weights = Type::Tile(works[t].weights.blocks[i], 0);
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          OUTRIDER_UNROLL
          for (uint32_t s = 0; s < 4; ++s) lanes[t].tiles[tile].sums[s] = Type::kSumStart;
        }
      });
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        block.MultiplyTiles([&](uint32_t t) {
          return IntTile{&lanes[t].weights, &works[t].rows[i][tile], &lanes[t].tiles[tile]};
        });
      }
      block.Each([&](uint32_t t) {
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          OUTRIDER_UNROLL
          for (uint32_t s = 0; s < 4; ++s) {
            const uint32_t r = s % 2, o = LaneOutputOfSum(s);
            TermPair& pair = terms[t].pairs[i][tile][r];
            pair.value[o] = Type::Value(lanes[t].tiles[tile].sums[s]);
            pair.factor[o] = works[t].weights.blocks[i].Half(0, o) * works[t].dx[tile][r][i];
          }
        }
      });
    }
  }
};

// Terms of blocks whose tiles' sums are multiplied by integers and added, a block at a time.
template <typename Type, uint32_t kTiles>
struct ScaledTerms {
  static_assert(Type::kStrip == 1);
  static constexpr uint32_t kSteps = Type::kBlock / Type::kTileStep;
  // Of a row's quants, those of four steps: two sums of 16 each.
  struct alignas(16) RowSums {
    uint32_t pairs[4];
  };
  // What a lane has of a block; its rows it fetches as it goes.
  struct Work {
    Strip<Type> weights;
    float dx[kTiles][2];
    size_t rows_at;
    const LaneRows<kTiles>* rows;
  };
  struct Lane {
    WeightFragment weights;
    RowFragment rows[kTiles];
    SumFragment tiles[kTiles];
    RowSums sums[kTiles][2];
    int32_t products[kTiles][4];
    int32_t minima[kTiles][4];
  };

  static OUTRIDER_HD void Load(const std::byte* panel, const GpuRows& x, uint32_t first_block,
                               uint32_t thread, const LaneRows<kTiles>& rows, Work& work) {
    work.rows = &rows;
    if (StripAt<Type>(x.inputs, first_block).block_count == 0) return;
    work.rows_at = size_t{first_block} * (Type::kBlock * kTileRows);
    LoadStrip<Type>(panel, x.inputs, first_block, thread, work.weights);
    const size_t scale_at = RowTiles{x.inputs, x.block}.Scale(0, first_block);
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      OUTRIDER_UNROLL
      for (uint32_t r = 0; r < 2; ++r) work.dx[tile][r] = rows.scales[tile][r][scale_at];
    }
  }

  template <typename Block, typename Works, typename Terms>
  static OUTRIDER_HD void Make(Block& block, Works& works, Terms& terms) {
    auto lanes = block.template Private<Lane>();
    block.Each([&](uint32_t t) {
      Type::Prepare(works[t].weights.blocks[0]);
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t s = 0; s < 4; ++s) lanes[t].products[tile][s] = lanes[t].minima[tile][s] = 0;
      }
    });
    OUTRIDER_UNROLL
    for (uint32_t step = 0; step < kSteps; ++step) {
      block.Each([&](uint32_t t) { LoadStep(step, t, works[t], lanes[t]); });
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        block.MultiplyTiles([&](uint32_t t) {
          return IntTile{&lanes[t].weights, &lanes[t].rows[tile], &lanes[t].tiles[tile]};
        });
      }
      block.Each([&](uint32_t t) { AddStep(works[t].weights.blocks[0], step, lanes[t]); });
    }
    block.Each([&](uint32_t t) {
      const LaneBlock<Type>& from = works[t].weights.blocks[0];
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t s = 0; s < 4; ++s) {
          const uint32_t r = s % 2, o = LaneOutputOfSum(s);
          const float dx = works[t].dx[tile][r];
          TermPair& pair = terms[t].pairs[0][tile][r];
          pair.value[o] = Type::Value(lanes[t].products[tile][s]);
          pair.factor[o] = from.Half(0, o) * dx;
          if constexpr (Type::kHasMinimum) {
            TermPair& second = terms[t].pairs[1][tile][r];
            second.value[o] = static_cast<float>(-lanes[t].minima[tile][s]);
            second.factor[o] = from.Half(1, o) * dx;
          }
        }
      }
    });
  }

 private:
  static OUTRIDER_HD void LoadStep(uint32_t step, uint32_t thread, const Work& work, Lane& lane) {
    const LaneRows<kTiles>& rows = *work.rows;
    lane.weights = Type::Tile(work.weights.blocks[0], step);
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      lane.tiles[tile] = {};
      lane.rows[tile] = RowTile<Type>(
          rows.quants[tile] + work.rows_at + QuantsOn(step * Type::kTileStep), thread);
      if constexpr (Type::kHasMinimum) {
        if (step % 4 != 0) continue;
        OUTRIDER_UNROLL
        for (uint32_t r = 0; r < 2; ++r) {
          lane.sums[tile][r] = *reinterpret_cast<const RowSums*>(
              rows.sums[tile][r] + work.rows_at / 16 + step * (Type::kTileStep / 16));
        }
      }
    }
  }

  static OUTRIDER_HD void AddStep(const LaneBlock<Type>& from, uint32_t step, Lane& lane) {
    OUTRIDER_UNROLL
    for (uint32_t s = 0; s < 4; ++s) {
      const int32_t scale = Type::Scale(from, LaneOutputOfSum(s), step);
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        lane.products[tile][s] += scale * lane.tiles[tile].sums[s];
        if constexpr (Type::kHasMinimum) {
          lane.minima[tile][s] =
              AddPairTimes(lane.sums[tile][s % 2].pairs[step % 4],
                           Type::MinimumPair(from, LaneOutputOfSum(s), step), lane.minima[tile][s]);
        }
      }
    }
  }
};

template <typename Type, uint32_t kTiles, bool kIsScaled = Type::kIsScaled>
struct TermsMaker : PlainTerms<Type, kTiles> {};
template <typename Type, uint32_t kTiles>
struct TermsMaker<Type, kTiles, true> : ScaledTerms<Type, kTiles> {};

template <typename Type, uint32_t kTiles>
struct DealtStripsProduct {
  using Terms = TermsMaker<Type, kTiles>;
  using Work = typename Terms::Work;
  static constexpr uint32_t kWarps = 8;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kBlocksAtOnce = 2;
  static constexpr bool kGoesJointly = true;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kRows = kTiles * kTileRows;
  static constexpr uint32_t kRoundBlocks = kWarps * Type::kStrip;
  // Rounds that are on their way: with two tiles, there are registers for one.
  static constexpr uint32_t kDepth = kTiles == 1 ? 2 : 1;
  static constexpr uint32_t kOfBlock = Type::kHasMinimum ? 2 : 1;
  static constexpr uint32_t kRowPairs = kTileOutputs / 2;
  // Of a row's pairs in shared memory: with 9, a quarter of a warp writes to all banks.
  static constexpr uint32_t kRowStride = kRowPairs + 1;
  static constexpr uint32_t kTermStride = kRows * kRowStride;
  static constexpr uint32_t kRoundPairs = kRoundBlocks * kOfBlock * kTermStride;
  // With two, terms are made for one round while those of another are added.
  static constexpr uint32_t kRoundsAtOnce = kRoundPairs * sizeof(TermPair) <= 40 * 1024 ? 2 : 1;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return kRoundsAtOnce * kRoundPairs * sizeof(TermPair); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t first_row = block.x() * kRows, panel = block.y();
    const uint32_t block_count = product.inputs / Type::kBlock;
    const uint32_t left_rows = product.x.row_count - first_row;
    const uint32_t row_count = left_rows < kRows ? left_rows : kRows;
    const auto shared = block.template Share<TermPair>(kRoundsAtOnce * kRoundPairs);
    auto rounds = block.template Private<Rounds>();
    auto rows = block.template Private<LaneRows<kTiles>>();
    auto sums = block.template Private<Sums>();
    block.Each([&](uint32_t t) {
      rows[t].Find(product.x, first_row, t);
      OUTRIDER_UNROLL
      for (uint32_t d = 0; d < kDepth; ++d) {
        Load(panel, FirstOf(d * kRoundBlocks, t), t, rows[t], rounds[t].of[d]);
      }
    });
    for (uint32_t first = 0; first < block_count;) {
      OUTRIDER_UNROLL
      for (uint32_t d = 0; d < kDepth; ++d) {
        if (first >= block_count) break;
        auto works = WorksOf<decltype(rounds)>(rounds, d);
        AddRound(block, panel, first, row_count, rows, works, shared, sums);
        first += kRoundBlocks;
      }
    }
    block.Each([&](uint32_t t) {
      if (t / kRowPairs >= row_count) return;
      OUTRIDER_UNROLL
      for (uint32_t o = 0; o < 2; ++o) {
        product.Store(first_row + t / kRowPairs, panel * kTileOutputs + 2 * (t % kRowPairs) + o,
                      sums[t].of[o]);
      }
    });
  }

 private:
  // Of a row and two outputs.
  struct Sums {
    float of[2];
  };
  // What is on its way of as many rounds.
  struct Rounds {
    Work of[kDepth];
  };
  // One of these, of each thread.
  template <typename RoundsOf>
  struct WorksOf {
    OUTRIDER_HD WorksOf(RoundsOf& rounds, uint32_t which) : rounds_(rounds), which_(which) {}
    OUTRIDER_HD Work& operator[](uint32_t t) { return rounds_[t].of[which_]; }

   private:
    RoundsOf& rounds_;
    uint32_t which_;
  };

  static OUTRIDER_HD uint32_t FirstOf(uint32_t first, uint32_t t) {
    return first + t / kWarpLanes * Type::kStrip;
  }

  OUTRIDER_HD void Load(uint32_t panel, uint32_t first, uint32_t t, const LaneRows<kTiles>& rows,
                        Work& work) const {
    Terms::Load(product.PanelAt(panel), product.x, first, t, rows, work);
  }

  // Adds a round, and asks for a later one.
  template <typename Block, typename Rows, typename Works, typename Shared, typename SumsOf>
  OUTRIDER_HD void AddRound(Block& block, uint32_t panel, uint32_t first, uint32_t row_count,
                            Rows& rows, Works& works, const Shared& shared, SumsOf& sums) const {
    const uint32_t round_at = first / kRoundBlocks % kRoundsAtOnce * kRoundPairs;
    const uint32_t left = product.inputs / Type::kBlock - first;
    auto terms = block.template Private<StripTerms<Type, kTiles>>();
    Terms::Make(block, works, terms);
    block.Each([&](uint32_t t) {
      Leave(terms[t], StripAt<Type>(product.inputs, FirstOf(first, t)), row_count, t, round_at,
            shared);
      Load(panel, FirstOf(first + kDepth * kRoundBlocks, t), t, rows[t], works[t]);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t / kRowPairs >= row_count) return;
      Add(shared, round_at + t / kRowPairs * kRowStride + t % kRowPairs,
          (left < kRoundBlocks ? left : kRoundBlocks) * kOfBlock, t, sums[t].of);
    });
    if (kRoundsAtOnce == 1) block.Sync();
  }

  template <typename Shared>
  static OUTRIDER_HD void Leave(const StripTerms<Type, kTiles>& terms, const StripPlace& place,
                                uint32_t row_count, uint32_t t, uint32_t round_at,
                                const Shared& shared) {
    const uint32_t at = round_at + t / kWarpLanes * (Type::kStrip * kOfBlock * kTermStride) +
                        RowOfSum(t, 0) * kRowStride + GroupOf(t);
    terms.ForPairs(place, [&](uint32_t i, uint32_t tile, uint32_t r, const TermPair& pair) {
      if (tile * kTileRows + RowOfSum(t, r) >= row_count) return;
      shared.Set(t, at + i * kTermStride + (tile * kTileRows + r) * kRowStride, pair);
    });
  }

  // A round's terms of two results.
  template <typename Shared>
  static OUTRIDER_HD void Add(const Shared& shared, uint32_t at, uint32_t count, uint32_t t,
                              float (&sums)[2]) {
    constexpr uint32_t kAhead = 8;
    uint32_t i = 0;
    for (; i + kAhead <= count; i += kAhead) {
      TermPair ahead[kAhead];
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kAhead; ++j) ahead[j] = shared.Get(t, at + (i + j) * kTermStride);
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kAhead; ++j) ahead[j].AddTo(sums);
    }
    for (; i < count; ++i) shared.Get(t, at + i * kTermStride).AddTo(sums);
  }
};

template <uint32_t kTiles>
struct LaneSums {
  float of[kTiles][2][2];  // by row and output
};

template <typename Type, uint32_t kTiles, uint32_t kWarpCount>
struct OwnRowsQuantProduct {
  using Terms = TermsMaker<Type, kTiles>;
  using Work = typename Terms::Work;
  static constexpr uint32_t kThreads = kWarpCount * kWarpLanes;
  static constexpr uint32_t kBlocksAtOnce = kTiles == 1 ? 12 / kWarpCount : 1;
  static constexpr bool kGoesJointly = kTiles == 1;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kWarpRows = kTiles * kTileRows;
  static constexpr uint32_t kRows = kWarpCount * kWarpRows;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t x = block.x(), panel = block.y();
    const uint32_t block_count = product.inputs / Type::kBlock;
    auto even = block.template Private<Work>(), odd = block.template Private<Work>();
    auto rows = block.template Private<LaneRows<kTiles>>();
    auto sums = block.template Private<LaneSums<kTiles>>();
    block.Each([&](uint32_t t) {
      rows[t].Find(product.x, FirstRow(x, t), t);
      Load(panel, 0, t, rows[t], even[t]);
      Load(panel, Type::kStrip, t, rows[t], odd[t]);
    });
    for (uint32_t first = 0; first < block_count; first += 2 * Type::kStrip) {
      AddStrip(block, panel, first, rows, even, sums);
      AddStrip(block, panel, first + Type::kStrip, rows, odd, sums);
    }
    block.Each([&](uint32_t t) { Store(FirstRow(x, t), panel, t, sums[t]); });
  }

 private:
  static OUTRIDER_HD uint32_t FirstRow(uint32_t x, uint32_t t) {
    return x * kRows + t / kWarpLanes * kWarpRows;
  }

  OUTRIDER_HD void Load(uint32_t panel, uint32_t first, uint32_t t, const LaneRows<kTiles>& rows,
                        Work& work) const {
    Terms::Load(product.PanelAt(panel), product.x, first, t, rows, work);
  }

  // Adds a strip, and asks for the one after the next.
  template <typename Block, typename Rows, typename Works, typename Sums>
  OUTRIDER_HD void AddStrip(Block& block, uint32_t panel, uint32_t first, Rows& rows, Works& works,
                            Sums& sums) const {
    auto terms = block.template Private<StripTerms<Type, kTiles>>();
    Terms::Make(block, works, terms);
    block.Each([&](uint32_t t) {
      Load(panel, first + 2 * Type::kStrip, t, rows[t], works[t]);
      terms[t].ForPairs(StripAt<Type>(product.inputs, first),
                        [&](uint32_t, uint32_t tile, uint32_t r, const TermPair& pair) {
                          pair.AddTo(sums[t].of[tile][r]);
                        });
    });
  }

  OUTRIDER_HD void Store(uint32_t first_row, uint32_t panel, uint32_t t,
                         const LaneSums<kTiles>& sums) const {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      OUTRIDER_UNROLL
      for (uint32_t s = 0; s < 4; ++s) {
        product.Store(first_row + tile * kTileRows + RowOfSum(t, s),
                      panel * kTileOutputs + PanelOutput(t, LaneOutputOfSum(s)),
                      sums.of[tile][s % 2][LaneOutputOfSum(s)]);
      }
    }
  }
};

}  // namespace outrider::gpu
