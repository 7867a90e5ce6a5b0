// Products of rows in int8 with quantised weights (products.h), by tensor cores. Sums are cut by the
// weights' inputs alone:
//
//   segment   512 inputs, the last perhaps fewer; its sum begins at zero, and block after block is
//             added to it in order, as NUMERICS.md (section 4) has it of all inputs
//   result    the first segment + the second + ...
//
// So what has up to 512 inputs has the processor's bits, and what has more has a GPU's own, which
// are the same for a row whoever else is in the run: without segments all blocks of a panel would
// be one chain, and whoever shares them out would have to tell the others what came of each.
//
//   dealt segments  few rows: a panel's segments are dealt to the warps of a block, so that weights
//                   are asked for by all warps at once; their sums meet in shared memory
//   own rows        more: every warp has a panel and rows of its own, and goes through all segments
//
// Weights of two strips are on their way while others are multiplied; rows come from shared memory,
// where they were copied for several panels, or from the cache nearest by. Which is chosen when:
// product_choice.h.
//
//   grid: rows / kRows rounded up, PanelBlocks()
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/cuda/kernels/gpu_rows.h"
#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/quant_blocks.h"

namespace outrider::gpu {

inline constexpr uint32_t kQuantSegment = 512;

OUTRIDER_HD uint32_t SegmentCount(uint32_t inputs) {
  return (inputs + kQuantSegment - 1) / kQuantSegment;
}

template <typename Type>
struct Segment {
  static constexpr uint32_t kBlocks = kQuantSegment / Type::kBlock;
  static constexpr uint32_t kStrips = kBlocks / Type::kStrip;
  static_assert(kStrips % 2 == 0, "strips are even and odd");
};

// What a lane has of a strip's weights: of two outputs. Blocks beyond `end` are other blocks that
// are there, and not to be added.
template <typename Type>
struct Strip {
  LaneBlock<Type> blocks[Type::kStrip];

  // kIsCut: the panel may end in the middle of a strip.
  template <bool kIsCut>
  OUTRIDER_HD void Load(const std::byte* panel, uint32_t inputs, uint32_t first, uint32_t thread) {
    const uint32_t end = inputs / Type::kBlock;
    if constexpr (kIsCut) {
      OUTRIDER_UNROLL
      for (uint32_t i = 0; i < Type::kStrip; ++i) {
        const uint32_t b = first + i < end ? first + i : end - 1;
        Type::Load(BlockOf<Type>(panel, inputs, b), thread, blocks[i]);
      }
    } else {
      const PanelBlock begin = BlockOf<Type>(panel, inputs, first < end ? first : 0);
      OUTRIDER_UNROLL
      for (uint32_t i = 0; i < Type::kStrip; ++i) {
        Type::Load(begin.Next(i * Type::kLines, i * Type::kHalves), thread, blocks[i]);
      }
    }
  }
};

// Two strips of a warp that follow one another, on their way or at hand.
template <typename Type>
struct TwoStrips {
  Strip<Type> of[2];
};

// One of the two, of each thread.
template <typename StripsOf>
struct OneOf {
  StripsOf& strips;
  uint32_t which;

  OUTRIDER_HD auto& operator[](uint32_t t) { return strips[t].of[which]; }
};

// --- rows ---

// Where a lane finds its rows in global memory: of the first tile, the one whose quants it loads,
// and the two whose sums it has. Beyond the last row is room (RowTiles::Count()), and what is made
// of what lies there is not stored.
template <typename Type>
struct LaneRows {
  const int8_t* quants;
  const float* scales[2];
  const int16_t* sums[2];
  uint32_t quants_of_tile, scales_of_tile, sums_of_tile;

  OUTRIDER_HD void Find(const GpuRows& x, uint32_t first_row, uint32_t thread) {
    const RowTiles tiles = {x.inputs, Type::kBlock};
    const uint32_t row = x.first_slot + first_row;
    quants = x.quants + tiles.Quant(row + GroupOf(thread), 0) + 8 * PlaceOf(thread);
    OUTRIDER_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      scales[r] = x.scales + tiles.Scale(row + RowOfSum(thread, r), 0);
      sums[r] = x.sums + tiles.Sum(row + RowOfSum(thread, r), 0);
    }
    quants_of_tile = static_cast<uint32_t>(tiles.QuantsOfTile());
    scales_of_tile = static_cast<uint32_t>(tiles.ScalesOfTile());
    sums_of_tile = static_cast<uint32_t>(tiles.SumsOfTile());
  }
  // Of 32 inputs from `k` on.
  OUTRIDER_HD RowFragment Quants(uint32_t, uint32_t tile, uint32_t k) const {
    const auto two = *reinterpret_cast<const Two<uint32_t>*>(
        quants + size_t{tile} * quants_of_tile + size_t{k} * kTileRows);
    return {{two.at[0], two.at[1]}};
  }
  // Of four blocks from `b` on.
  OUTRIDER_HD Four<float> Scales(uint32_t, uint32_t tile, uint32_t r, uint32_t b) const {
    return *reinterpret_cast<const Four<float>*>(scales[r] + size_t{tile} * scales_of_tile +
                                                 size_t{b} * kTileRows);
  }
  OUTRIDER_HD float Scale(uint32_t, uint32_t tile, uint32_t r, uint32_t b) const {
    return scales[r][size_t{tile} * scales_of_tile +
                     size_t{b / RowTiles::kScales} * (RowTiles::kScales * kTileRows) +
                     b % RowTiles::kScales];
  }
  // Eight sums of 16 quants, from input `k` on.
  OUTRIDER_HD Four<uint32_t> Sums(uint32_t, uint32_t tile, uint32_t r, uint32_t k) const {
    return *reinterpret_cast<const Four<uint32_t>*>(
        sums[r] + size_t{tile} * sums_of_tile + size_t{k / 256} * (RowTiles::kSums * kTileRows) +
        k % 256 / 16);
  }
};

// A segment of a warp's rows in shared memory, where its lanes have copied it: for each tile quants,
// scales and, where there are minima, sums, as RowTiles has them.
template <typename Type, uint32_t kTiles, typename Shared>
struct SegmentRows {
  static constexpr uint32_t kQuantDwords = kQuantSegment * kTileRows / 4;
  static constexpr uint32_t kScaleGroups =
      Type::kIsScaled ? 1 : kQuantSegment / Type::kBlock / RowTiles::kScales;
  static constexpr uint32_t kScaleDwords = kScaleGroups * RowTiles::kScales * kTileRows;
  static constexpr uint32_t kSumDwords = Type::kHasMinimum ? kQuantSegment / 16 * kTileRows / 2 : 0;
  static constexpr uint32_t kTileDwordsHere = kQuantDwords + kScaleDwords + kSumDwords;
  static constexpr uint32_t kDwords = kTiles * kTileDwordsHere;  // of a warp

  const Shared& shared;

  OUTRIDER_HD uint32_t At(uint32_t t, uint32_t tile) const {
    return t / kWarpLanes * kDwords + tile * kTileDwordsHere;
  }
  // What a lane copies of its warp's segment: of any tile, always the same rows.
  OUTRIDER_HD void Copy(const GpuRows& x, uint32_t first_row, uint32_t segment, uint32_t t) const {
    const RowTiles tiles = {x.inputs, Type::kBlock};
    const uint32_t lane = LaneOf(t), k = segment * kQuantSegment;
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const uint32_t row = x.first_slot + first_row + tile * kTileRows, at = At(t, tile);
      CopyPieces<kQuantDwords / 4, 16>(
          x.quants + tiles.Quant(row + lane % 16 / 2, 0) + 16 * (lane % 2) + size_t{k} * kTileRows,
          (x.inputs - k) / RowTiles::kQuants, t, at);
      CopyPieces<kScaleDwords / 4, 8>(
          x.scales + tiles.Scale(row + lane % 8, Type::kIsScaled ? k / 1024 * 4 : k / Type::kBlock),
          kScaleGroups, t, at + kQuantDwords);
      if constexpr (Type::kHasMinimum) {
        CopyPieces<kSumDwords / 4, 16>(
            x.sums + tiles.Sum(row + lane % 16 / 2, k / 16) + 8 * (lane % 2), (x.inputs - k) / 256,
            t, at + kQuantDwords + kScaleDwords);
      }
    }
  }
  OUTRIDER_HD RowFragment Quants(uint32_t t, uint32_t tile, uint32_t k) const {
    const Two<uint32_t> two = shared.GetTwo(
        t, At(t, tile) + k % kQuantSegment * (kTileRows / 4) + 8 * GroupOf(t) + 2 * PlaceOf(t));
    return {{two.at[0], two.at[1]}};
  }
  OUTRIDER_HD Four<float> Scales(uint32_t t, uint32_t tile, uint32_t r, uint32_t b) const {
    const uint32_t group = b / RowTiles::kScales % kScaleGroups;
    const Four<uint32_t> four = shared.GetFour(
        t, At(t, tile) + kQuantDwords + (group * kTileRows + RowOfSum(t, r)) * RowTiles::kScales);
    return {{FloatOf(four.at[0]), FloatOf(four.at[1]), FloatOf(four.at[2]), FloatOf(four.at[3])}};
  }
  OUTRIDER_HD float Scale(uint32_t t, uint32_t tile, uint32_t r, uint32_t b) const {
    return FloatOf(shared.Get(t, At(t, tile) + kQuantDwords + RowOfSum(t, r) * RowTiles::kScales +
                                     b % RowTiles::kScales));
  }
  OUTRIDER_HD Four<uint32_t> Sums(uint32_t t, uint32_t tile, uint32_t r, uint32_t k) const {
    const uint32_t i = k % kQuantSegment / 16;
    return shared.GetFour(
        t, At(t, tile) + kQuantDwords + kScaleDwords +
               (i / RowTiles::kSums * kTileRows + RowOfSum(t, r)) * (RowTiles::kSums / 2) +
               i % RowTiles::kSums / 2);
  }

 private:
  // Pieces of 16 bytes, every 32nd of them this lane's: kTogether of them follow one another, and
  // so do the next, of which `groups` are there.
  template <uint32_t kPieces, uint32_t kTogether, typename T>
  OUTRIDER_HD void CopyPieces(const T* from, uint32_t groups, uint32_t t, uint32_t to) const {
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < (kPieces + kWarpLanes - 1) / kWarpLanes; ++i) {
      const uint32_t piece = i * kWarpLanes + LaneOf(t), group = piece / kTogether;
      if (piece >= kPieces) continue;
      shared.CopyFour(t, to + 4 * piece,
                      reinterpret_cast<const std::byte*>(from) + size_t{group} * (16 * kTogether),
                      group < groups);
    }
  }
};

// --- sums ---

// Of a lane's tiles, two rows and two outputs each.
template <uint32_t kTiles>
struct LaneSums {
  float of[kTiles][2][2];  // by row and output
};

// Adds strips whose blocks' sums are single tiles'.
template <typename Type, uint32_t kTiles>
struct PlainStrips {
  struct Lane {
    WeightFragment weights;
    RowFragment rows[kTiles];
    SumFragment tiles[kTiles];
    Four<float> dx[kTiles][2];
  };

  // first_of(thread) is the strip's first block, alike in a warp; those beyond the end are left out.
  template <bool kIsCut, typename Block, typename FirstOf, typename Strips, typename Rows,
            typename Sums>
  static OUTRIDER_HD void Add(Block& block, uint32_t end, const FirstOf& first_of, Strips& strips,
                              Rows& rows, Sums& sums) {
    static_assert(Type::kStrip == RowTiles::kScales && Type::kBlock == RowTiles::kQuants);
    auto lanes = block.template Private<Lane>();
    block.Each([&](uint32_t t) {
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t r = 0; r < 2; ++r) {
          lanes[t].dx[tile][r] = rows[t].Scales(t, tile, r, first_of(t));
        }
      }
    });
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < Type::kStrip; ++i) {
      block.Each([&](uint32_t t) {
        lanes[t].weights = Type::Tile(strips[t].blocks[i], 0);
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          lanes[t].rows[tile] = rows[t].Quants(t, tile, (first_of(t) + i) * Type::kBlock);
        }
      });
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        block.template MultiplyTilesFrom<Type::kSumStart>([&](uint32_t t) {
          return IntTile{&lanes[t].weights, &lanes[t].rows[tile], &lanes[t].tiles[tile]};
        });
      }
      block.Each([&](uint32_t t) {
        AddBlock(strips[t].blocks[i], i, first_of(t) + (kIsCut ? i : 0) < end, lanes[t], sums[t]);
      });
    }
  }

 private:
  static OUTRIDER_HD void AddBlock(const LaneBlock<Type>& from, uint32_t i, bool is_there,
                                   const Lane& lane, LaneSums<kTiles>& sums) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      OUTRIDER_UNROLL
      for (uint32_t s = 0; s < 4; ++s) {
        const uint32_t r = s % 2, o = LaneOutputOfSum(s);
        float& sum = sums.of[tile][r][o];
        const float more = Fma(Type::Value(lane.tiles[tile].sums[s]),
                               from.Half(0, o) * lane.dx[tile][r].at[i], sum);
        sum = is_there ? more : sum;
      }
    }
  }
};

// Adds strips of a block, whose tiles' sums are multiplied by integers and added.
template <typename Type, uint32_t kTiles>
struct ScaledStrips {
  static_assert(Type::kStrip == 1);
  static constexpr uint32_t kSteps = Type::kBlock / Type::kTileStep;
  static constexpr uint32_t kStepsOfRows = kTileInputs / Type::kTileStep;  // that are read at once
  struct Lane {
    WeightFragment weights;
    RowFragment rows[kTiles];
    SumFragment tiles[kTiles];
    // Of a row's quants, those of four steps: two sums of 16 each.
    Four<uint32_t> sums[kTiles][2];
    int32_t products[kTiles][4];
    int32_t minima[kTiles][4];
  };

  template <bool kIsCut, typename Block, typename FirstOf, typename Strips, typename Rows,
            typename Sums>
  static OUTRIDER_HD void Add(Block& block, uint32_t end, const FirstOf& first_of, Strips& strips,
                              Rows& rows, Sums& sums) {
    auto lanes = block.template Private<Lane>();
    block.Each([&](uint32_t t) {
      Type::Prepare(strips[t].blocks[0]);
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t s = 0; s < 4; ++s) lanes[t].products[tile][s] = lanes[t].minima[tile][s] = 0;
      }
    });
    OUTRIDER_UNROLL
    for (uint32_t step = 0; step < kSteps; ++step) {
      block.Each([&](uint32_t t) {
        lanes[t].weights = Type::Tile(strips[t].blocks[0], step);
        ReadRows(first_of(t) * Type::kBlock + step * Type::kTileStep, step, t, rows[t], lanes[t]);
      });
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        block.template MultiplyTilesFrom<0>([&](uint32_t t) {
          return IntTile{&lanes[t].weights, &lanes[t].rows[tile], &lanes[t].tiles[tile]};
        });
      }
      block.Each([&](uint32_t t) { AddStep(strips[t].blocks[0], step, lanes[t]); });
    }
    block.Each([&](uint32_t t) {
      AddBlock(strips[t].blocks[0], t, first_of(t), end, rows[t], lanes[t], sums[t]);
    });
  }

 private:
  template <typename Rows>
  static OUTRIDER_HD void ReadRows(uint32_t k, uint32_t step, uint32_t t, const Rows& rows,
                                   Lane& lane) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      RowFragment& to = lane.rows[tile];
      if (step % kStepsOfRows == 0) {
        to = rows.Quants(t, tile, k);
      } else {
        to.dwords[0] = to.dwords[1];  // the second half's, beside weights that are zero
      }
      if constexpr (Type::kHasMinimum) {
        if (step % 4 != 0) continue;
        OUTRIDER_UNROLL
        for (uint32_t r = 0; r < 2; ++r) lane.sums[tile][r] = rows.Sums(t, tile, r, k);
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
              AddPairTimes(lane.sums[tile][s % 2].at[step % 4],
                           Type::MinimumPair(from, LaneOutputOfSum(s), step), lane.minima[tile][s]);
        }
      }
    }
  }

  template <typename Rows>
  static OUTRIDER_HD void AddBlock(const LaneBlock<Type>& from, uint32_t t, uint32_t b,
                                   uint32_t end, const Rows& rows, const Lane& lane,
                                   LaneSums<kTiles>& sums) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      OUTRIDER_UNROLL
      for (uint32_t s = 0; s < 4; ++s) {
        const uint32_t r = s % 2, o = LaneOutputOfSum(s);
        const float dx = rows.Scale(t, tile, r, b);
        float& sum = sums.of[tile][r][o];
        float more = Fma(Type::Value(lane.products[tile][s]), from.Half(0, o) * dx, sum);
        if constexpr (Type::kHasMinimum) {
          more = Fma(static_cast<float>(-lane.minima[tile][s]), from.Half(1, o) * dx, more);
        }
        sum = b < end ? more : sum;
      }
    }
  }
};

template <typename Type, uint32_t kTiles, bool kIsScaled = Type::kIsScaled>
struct StripAdder : PlainStrips<Type, kTiles> {};
template <typename Type, uint32_t kTiles>
struct StripAdder<Type, kTiles, true> : ScaledStrips<Type, kTiles> {};

// --- products ---

// The same for all threads.
template <typename T>
struct AllOf {
  T value;

  OUTRIDER_HD const T& operator[](uint32_t) const { return value; }
};

template <typename Type, uint32_t kTiles>
struct DealtSegmentsProduct {
  static constexpr uint32_t kWarpBits = kTiles <= 2 ? 3 : 2;
  static constexpr uint32_t kWarps = 1u << kWarpBits;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kBlocksAtOnce = 16 / kWarps;
  static constexpr bool kGoesJointly = true;
  static constexpr uint32_t kRows = kTiles * kTileRows;
  static constexpr uint32_t kRowPairs = kTileOutputs / 2;
  // Of a row's pairs in shared memory: with 10, half of a warp writes to all banks.
  static constexpr uint32_t kRowStride = kRowPairs + 2;
  static constexpr uint32_t kPartPairs = kRows * kRowStride;
  static constexpr uint32_t kTurnPairs = kWarps * kPartPairs;
  static constexpr uint32_t kTotalPairs = kRows * kRowPairs;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const {
    return kSharedBytes + Turns() * kTotalPairs * sizeof(OutputPair);
  }
  OUTRIDER_HD uint32_t PanelBlocks() const {
    return (Panels() + PanelsOfBlock() - 1) / PanelsOfBlock();
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    if (product.inputs % (Type::kStrip * Type::kBlock) == 0) {
      Multiply<false>(block);
    } else {
      Multiply<true>(block);
    }
  }

 private:
  struct alignas(8) OutputPair {
    float of[2];
  };
  template <typename Shared>
  using RowsOf = SegmentRows<Type, kTiles, Shared>;
  static constexpr uint32_t kRowDwords = kWarps * RowsOf<int>::kDwords;
  // But for the totals; 96 KiB with them: what every GPU has.
  static constexpr size_t kSharedBytes =
      kRowDwords * sizeof(uint32_t) + 2 * kTurnPairs * sizeof(OutputPair);
  static constexpr uint32_t kTurnsMax =
      (96 * 1024 - kSharedBytes) / (kTotalPairs * sizeof(OutputPair));
  static_assert(kTurnsMax >= 1);

  // What a block's warps have of its panels' segments.
  struct Deal {
    uint32_t first_row, first_panel, panel_end;
    uint32_t share_bits;  // of the number of warps that a panel's segments are dealt to
    uint32_t segments;

    OUTRIDER_HD uint32_t share() const { return 1u << share_bits; }
    OUTRIDER_HD uint32_t panels_at_once() const { return kWarps >> share_bits; }
    // Where nothing is left to do, that of another warp, for nothing.
    OUTRIDER_HD uint32_t PanelOf(uint32_t t, uint32_t turn) const {
      const uint32_t panel = first_panel + turn * panels_at_once() + (t / kWarpLanes >> share_bits);
      return panel < panel_end ? panel : panel_end - 1;
    }
    OUTRIDER_HD uint32_t SegmentOf(uint32_t t, uint32_t round) const {
      const uint32_t segment = (round << share_bits) + (t / kWarpLanes & (share() - 1));
      return segment < segments ? segment : segments - 1;
    }
    // Of a block: panels at once are a turn, segments at once a round.
    OUTRIDER_HD uint32_t turns() const {
      return (panel_end - first_panel + panels_at_once() - 1) / panels_at_once();
    }
    OUTRIDER_HD uint32_t rounds() const { return (segments + share() - 1) >> share_bits; }
  };

  OUTRIDER_HD uint32_t Panels() const {
    return (product.outputs + kTileOutputs - 1) / kTileOutputs;
  }
  // No more warps than there are segments, so that a block of few has several panels at once.
  OUTRIDER_HD uint32_t ShareBits() const {
    const uint32_t segments = SegmentCount(product.inputs);
    uint32_t bits = 0;
    while (bits < kWarpBits && 1u << bits < segments) ++bits;
    return bits;
  }
  OUTRIDER_HD uint32_t Turns() const {
    const uint32_t turns = product.panels_of_block >> (kWarpBits - ShareBits());
    return turns == 0 ? 1 : turns < kTurnsMax ? turns : kTurnsMax;
  }
  OUTRIDER_HD uint32_t PanelsOfBlock() const { return Turns() << (kWarpBits - ShareBits()); }
  OUTRIDER_HD Deal DealOf(uint32_t x, uint32_t y) const {
    const uint32_t first = y * PanelsOfBlock(), end = first + PanelsOfBlock();
    return {x * kRows, first, end < Panels() ? end : Panels(), ShareBits(),
            SegmentCount(product.inputs)};
  }

  template <bool kIsCut, typename Block>
  OUTRIDER_HD void Multiply(Block& block) const {
    const Deal deal = DealOf(block.x(), block.y());
    const auto shared = block.template Share<uint32_t>(kRowDwords);
    const auto parts = block.template Share<OutputPair>(2 * kTurnPairs);
    const auto totals = block.template Share<OutputPair>(Turns() * kTotalPairs);
    using Rows = RowsOf<std::remove_const_t<decltype(shared)>>;
    const AllOf<Rows> rows = {{shared}};
    auto strips = block.template Private<TwoStrips<Type>>();
    block.Each([&](uint32_t t) {
      Load<kIsCut>(t, deal, 0, 0, 0, strips[t].of[0]);
      Load<kIsCut>(t, deal, 0, 0, 1, strips[t].of[1]);
    });
    for (uint32_t round = 0; round < deal.rounds(); ++round) {
      block.Each([&](uint32_t t) {
        rows[t].Copy(product.x, deal.first_row, deal.SegmentOf(t, round), t);
      });
      block.CloseBatch();
      block.template AwaitBatches<0>();
      block.template SyncGroups<kWarpLanes>();
      for (uint32_t turn = 0; turn < deal.turns(); ++turn) {
        auto sums = block.template Private<LaneSums<kTiles>>();
        AddSegments<kIsCut>(block, deal, round, turn, rows, strips, sums);
        block.Each([&](uint32_t t) { Leave(t, turn % 2, sums[t], parts); });
        block.Sync();
        block.Each([&](uint32_t t) { AddParts(t, deal, round, turn, parts, totals); });
      }
      if (deal.turns() % 2 != 0) block.Sync();  // for parts that the next round begins with
    }
  }

  // A strip of a warp's segment.
  template <bool kIsCut>
  OUTRIDER_HD void Load(uint32_t t, const Deal& deal, uint32_t round, uint32_t turn, uint32_t strip,
                        Strip<Type>& to) const {
    to.template Load<kIsCut>(
        product.PanelAt(deal.PanelOf(t, turn)), product.inputs,
        deal.SegmentOf(t, round) * Segment<Type>::kBlocks + strip * Type::kStrip, t);
  }

  // A segment of each warp; asks for the first strips of the one after it.
  template <bool kIsCut, typename Block, typename Rows, typename Strips, typename Sums>
  OUTRIDER_HD void AddSegments(Block& block, const Deal& deal, uint32_t round, uint32_t turn,
                               Rows& rows, Strips& strips, Sums& sums) const {
    constexpr uint32_t kStrips = Segment<Type>::kStrips;
    const bool is_last = turn + 1 == deal.turns();
    const uint32_t next_round = is_last ? round + 1 : round, next_turn = is_last ? 0 : turn + 1;
    OUTRIDER_UNROLL
    for (uint32_t strip = 0; strip < kStrips; ++strip) {
      auto these = OneOf<Strips>{strips, strip % 2};
      StripAdder<Type, kTiles>::template Add<kIsCut>(
          block, product.inputs / Type::kBlock,
          [&](uint32_t t) {
            return deal.SegmentOf(t, round) * Segment<Type>::kBlocks + strip * Type::kStrip;
          },
          these, rows, sums);
      block.Each([&](uint32_t t) {
        if (strip + 2 < kStrips) {
          Load<kIsCut>(t, deal, round, turn, strip + 2, these[t]);
        } else {
          Load<kIsCut>(t, deal, next_round, next_turn, strip + 2 - kStrips, these[t]);
        }
      });
    }
  }

  template <typename Shared>
  static OUTRIDER_HD void Leave(uint32_t t, uint32_t half, const LaneSums<kTiles>& sums,
                                const Shared& parts) {
    const uint32_t at = half * kTurnPairs + t / kWarpLanes * kPartPairs + GroupOf(t);
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      OUTRIDER_UNROLL
      for (uint32_t r = 0; r < 2; ++r) {
        const auto& pair = sums.of[tile][r];
        parts.Set(t, at + (tile * kTileRows + RowOfSum(t, r)) * kRowStride,
                  OutputPair{{pair[0], pair[1]}});
      }
    }
  }

  // Of a turn, to what has come of it in the rounds before, which waits where nobody else looks.
  template <typename Shared>
  OUTRIDER_HD void AddParts(uint32_t t, const Deal& deal, uint32_t round, uint32_t turn,
                            const Shared& parts, const Shared& totals) const {
    const uint32_t share = deal.share(), left = deal.segments - round * share;
    const uint32_t count = left < share ? left : share;
    for (uint32_t i = t; i < kTotalPairs * deal.panels_at_once(); i += kThreads) {
      const uint32_t row = i / kRowPairs % kRows, pair = i % kRowPairs;
      const uint32_t of_turn = i / kTotalPairs;  // a panel
      const uint32_t at =
          turn % 2 * kTurnPairs + of_turn * share * kPartPairs + row * kRowStride + pair;
      const uint32_t total_at = turn * kTotalPairs + i;  // with more rounds, a panel has all warps
      OutputPair sum = parts.Get(t, at);
      if (round > 0) sum = Sum(totals.Get(t, total_at), sum);
      for (uint32_t j = 1; j < count; ++j) sum = Sum(sum, parts.Get(t, at + j * kPartPairs));
      if (left > share) {
        totals.Set(t, total_at, sum);
        continue;
      }
      const uint32_t panel = deal.first_panel + turn * deal.panels_at_once() + of_turn;
      if (panel >= deal.panel_end) continue;
      const uint32_t output = panel * kTileOutputs + 2 * pair;
      product.Store(deal.first_row + row, output, sum.of[0]);
      product.Store(deal.first_row + row, output + 1, sum.of[1]);
    }
  }
  static OUTRIDER_HD OutputPair Sum(const OutputPair& a, const OutputPair& b) {
    return {{a.of[0] + b.of[0], a.of[1] + b.of[1]}};
  }
};

template <typename Type, uint32_t kTiles>
struct OwnRowsQuantProduct {
  static constexpr uint32_t kPanels = 4, kRowGroups = 2;
  static constexpr uint32_t kThreads = kPanels * kRowGroups * kWarpLanes;
  static constexpr uint32_t kBlocksAtOnce = 2;
  static constexpr uint32_t kWarpRows = kTiles * kTileRows;
  static constexpr uint32_t kRows = kRowGroups * kWarpRows;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    if (product.inputs % (Type::kStrip * Type::kBlock) == 0) {
      Multiply<false>(block);
    } else {
      Multiply<true>(block);
    }
  }

 private:
  // A warp's, which are another's, for nothing, where there are none.
  OUTRIDER_HD uint32_t FirstRow(uint32_t x, uint32_t t) const {
    return x * kRows + t / kWarpLanes / kPanels * kWarpRows;
  }
  OUTRIDER_HD uint32_t PanelOf(uint32_t y, uint32_t t) const {
    return y * kPanels + t / kWarpLanes % kPanels;
  }

  template <bool kIsCut, typename Block>
  OUTRIDER_HD void Multiply(Block& block) const {
    const uint32_t x = block.x(), y = block.y(), end = product.inputs / Type::kBlock;
    auto strips = block.template Private<TwoStrips<Type>>();
    auto rows = block.template Private<LaneRows<Type>>();
    auto panels = block.template Private<const std::byte*>();
    auto sums = block.template Private<LaneSums<kTiles>>();
    auto totals = block.template Private<LaneSums<kTiles>>();
    block.Each([&](uint32_t t) {
      const uint32_t row = FirstRow(x, t), panel = PanelOf(y, t);
      rows[t].Find(product.x, row < product.x.row_count ? row : 0, t);
      panels[t] = product.PanelAt(panel * kTileOutputs < product.outputs ? panel : 0);
      Load<kIsCut>(t, panels[t], 0, strips[t].of[0]);
      Load<kIsCut>(t, panels[t], Type::kStrip, strips[t].of[1]);
    });
    for (uint32_t first = 0; first < end;) {
      OUTRIDER_UNROLL
      for (uint32_t i = 0; i < 2; ++i) {
        if (first >= end) break;
        auto these = OneOf<decltype(strips)>{strips, i};
        StripAdder<Type, kTiles>::template Add<kIsCut>(
            block, end, [&](uint32_t) { return first; }, these, rows, sums);
        block.Each(
            [&](uint32_t t) { Load<kIsCut>(t, panels[t], first + 2 * Type::kStrip, these[t]); });
        first += Type::kStrip;
      }
      if (first % Segment<Type>::kBlocks != 0 && first < end) continue;
      block.Each([&](uint32_t t) {
        Total(first <= Segment<Type>::kBlocks, sums[t], totals[t]);
        sums[t] = {};
      });
    }
    block.Each([&](uint32_t t) { Store(FirstRow(x, t), PanelOf(y, t), t, totals[t]); });
  }

  template <bool kIsCut>
  OUTRIDER_HD void Load(uint32_t t, const std::byte* panel, uint32_t first, Strip<Type>& to) const {
    to.template Load<kIsCut>(panel, product.inputs, first, t);
  }

  static OUTRIDER_HD void Total(bool is_first, const LaneSums<kTiles>& sums,
                                LaneSums<kTiles>& totals) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      OUTRIDER_UNROLL
      for (uint32_t s = 0; s < 4; ++s) {
        const float sum = sums.of[tile][s % 2][s / 2];
        float& total = totals.of[tile][s % 2][s / 2];
        total = is_first ? sum : total + sum;
      }
    }
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
