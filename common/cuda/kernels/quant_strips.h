// What products with quantised weights (quant_products.h) are made of: the strips of blocks that a
// warp loads of a panel, where its lanes find the rows that meet them, and how what tensor cores
// make of both is added to a segment's sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/gpu_rows.h"
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

}  // namespace outrider::gpu
