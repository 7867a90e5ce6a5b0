// Products with F16 and BF16 weights (split_products.h) and many rows, whose floats have been split
// once for all (SplitRows). A block has 64 rows and eight panels, for what it fetches of either to
// be used by many of the other; and goes through a quarter's four segments at a time. A segment has
// four warps, with half of the panels and half of the rows each, and a ring of tiles in shared
// memory that these fill and share.
//
// Where that is too few blocks to keep a GPU busy, quarters have blocks of their own: sums meet in
// global memory, and the last block to come adds them up.
//
//   grid: rows / kRows rounded up, times kShares; panels / kPanels rounded up
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/split_products.h"

namespace outrider::gpu {

// Requires inputs % 4 == 0.
template <typename Weights, uint32_t kShareCount>
struct SomeRowsSplit {
  using WeightsType = Weights;
  static constexpr uint32_t kShares = kShareCount;  // 1, or kQuarters: of a block each
  static constexpr uint32_t kPanels = 8;
  static constexpr uint32_t kTiles = 8;
  static constexpr uint32_t kRows = kTiles * kTileRows;
  // A segment's warps have half of the panels and half of the row tiles each.
  static constexpr uint32_t kHalves = 2;
  static constexpr uint32_t kWarpPanels = kPanels / kHalves;
  static constexpr uint32_t kWarpTiles = kTiles / kHalves;
  static constexpr uint32_t kWarpRows = kWarpTiles * kTileRows;
  static constexpr uint32_t kSegmentWarps = kHalves * kHalves;
  static constexpr uint32_t kWarps = kQuarterSegments * kSegmentWarps;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kOutputs = kPanels * kTileOutputs;
  static constexpr uint32_t kSegmentTiles = kPanels + kTiles;
  static_assert(kPanels % kSegmentWarps == 0 && kTiles % kSegmentWarps == 0);
  static constexpr uint32_t kStageTiles = kQuarterSegments * kSegmentTiles;
  static constexpr uint32_t kStages = 48 / kSegmentTiles;  // 96 KiB: what every GPU has
  static constexpr uint32_t kRingDwords = kStages * kStageTiles * kTileDwords;
  // Of sums in shared memory: no two lanes of a warp write to the same bank.
  static constexpr uint32_t kRowStride = kOutputs + 4;
  static constexpr uint32_t kPartStride = kWarpRows * kRowStride;
  static_assert(kQuarterSegments * kPartStride <= kRingDwords);
  // Of a thread, in each half of the rows.
  static constexpr uint32_t kResults = kWarpRows * kOutputs / kThreads;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return kRingDwords * sizeof(uint32_t); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const Place place = {block.x() / kShares * kRows, block.y() * kOutputs};
    const auto shared = block.template Share<uint32_t>(kRingDwords);
    auto results = block.template Private<Results>();
    if constexpr (kShares == 1) {
      for (uint32_t quarter = 0; quarter < kQuarters; ++quarter) {
        SumQuarter(block, place, quarter, shared, results);
        block.Each([&](uint32_t t) { AddQuarter(t, place, quarter, results[t]); });
      }
    } else {
      const uint32_t quarter = block.x() % kShares;
      SumQuarter(block, place, quarter, shared, results);
      const size_t tile = size_t{block.y()} * TilesOfGrid() + block.x() / kShares;
      if (!MeetOthers(block, tile, quarter, results)) return;
      block.Each([&](uint32_t t) {
        ForEachResult(t, [&](uint32_t half, uint32_t j, uint32_t row, uint32_t output) {
          product.Store(place.row + row, place.output + output, results[t].y[half][j]);
        });
      });
    }
  }

 private:
  struct Place {
    uint32_t row, output;  // the block's first
  };
  struct Results {
    float y[kHalves][kResults];
  };
  struct Sources {
    TileSource weights[kPanels / kSegmentWarps], rows[kTiles / kSegmentWarps];
  };
  using Sums = TileSums<kWarpPanels, kWarpTiles>;

  OUTRIDER_HD uint32_t TilesOfGrid() const { return (product.x.row_count + kRows - 1) / kRows; }

  // Of a thread's warp: its segment of the quarter, the first of its panels, and which half of the
  // rows it has: every other tile.
  static OUTRIDER_HD uint32_t SegmentOf(uint32_t t) { return t / kWarpLanes / kSegmentWarps; }
  static OUTRIDER_HD uint32_t PanelOf(uint32_t t) {
    return t / kWarpLanes / kHalves % kHalves * kWarpPanels;
  }
  static OUTRIDER_HD uint32_t HalfOf(uint32_t t) { return t / kWarpLanes % kHalves; }

  template <typename Use>
  static OUTRIDER_HD void ForEachResult(uint32_t t, const Use& use) {
    OUTRIDER_UNROLL
    for (uint32_t half = 0; half < kHalves; ++half) {
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kResults; ++j) {
        const uint32_t result = j * kThreads + t, row = result / kOutputs;
        use(half, j, (row / kTileRows * kHalves + half) * kTileRows + row % kTileRows,
            result % kOutputs);
      }
    }
  }

  // What a block has of a result waits for its next quarter where it will be stored: in registers
  // there would be no room for it beside a segment's sums.
  OUTRIDER_HD void AddQuarter(uint32_t t, const Place& place, uint32_t quarter,
                              const Results& results) const {
    ForEachResult(t, [&](uint32_t half, uint32_t j, uint32_t row, uint32_t output) {
      row += place.row;
      output += place.output;
      const float y = (quarter == 0 ? 0 : product.Kept(row, output)) + results.y[half][j];
      if (quarter + 1 == kQuarters) {
        product.Store(row, output, y);
      } else {
        product.Keep(row, output, y);
      }
    });
  }

  template <typename Block, typename Shared, typename AllResults>
  OUTRIDER_HD void SumQuarter(Block& block, const Place& place, uint32_t quarter,
                              const Shared& shared, AllResults& results) const {
    auto sums = block.template Private<Sums>();
    MultiplySegments(block, place, quarter, shared, sums);
    OUTRIDER_UNROLL
    for (uint32_t half = 0; half < kHalves; ++half) {
      block.Sync();
      block.Each([&](uint32_t t) {
        if (HalfOf(t) == half) Leave(t, sums[t], shared);
      });
      block.Sync();
      block.Each([&](uint32_t t) {
        OUTRIDER_UNROLL
        for (uint32_t j = 0; j < kResults; ++j) {
          const uint32_t result = j * kThreads + t;
          const uint32_t at = result / kOutputs * kRowStride + result % kOutputs;
          float sum = 0;
          OUTRIDER_UNROLL
          for (uint32_t i = 0; i < kQuarterSegments; ++i) {
            sum = sum + FloatOf(shared.Get(t, i * kPartStride + at));
          }
          results[t].y[half][j] = sum;
        }
      });
    }
    block.Sync();
  }

  template <typename Block, typename Shared, typename AllSums>
  OUTRIDER_HD void MultiplySegments(Block& block, const Place& place, uint32_t quarter,
                                    const Shared& shared, AllSums& sums) const {
    const uint32_t steps = SegmentSteps(product.inputs);
    auto lanes = block.template Private<SplitLane<Weights, kWarpTiles>>();
    auto sources = block.template Private<Sources>();
    block.Each([&](uint32_t t) { sources[t] = SourcesOf(t, place); });
    const auto copy = [&](uint32_t step, uint32_t stage) {
      if (step < steps) {
        block.Each([&](uint32_t t) { Copy(t, sources[t], quarter, step, stage, shared); });
      }
      block.CloseBatch();
    };
    for (uint32_t step = 0; step + 1 < kStages; ++step) copy(step, step);
    uint32_t stage = 0, last_stage = kStages - 1;
    for (uint32_t step = 0; step < steps; ++step) {
      block.template AwaitBatches<kStages - 2>();
      block.template SyncGroups<kSegmentWarps * kWarpLanes>();
      copy(step + kStages - 1, last_stage);
      block.Each([&](uint32_t t) {
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kWarpTiles; ++tile) {
          const uint32_t at = TileAt(SegmentOf(t), stage, kPanels + tile * kHalves + HalfOf(t));
          lanes[t].rows[tile] = TermsOf(shared.GetFour(t, at + 4 * LaneOf(t)));
        }
      });
      OUTRIDER_UNROLL
      for (uint32_t p = 0; p < kWarpPanels; ++p) {
        ReadPanel<Weights>(
            block, shared, [&](uint32_t t) { return TileAt(SegmentOf(t), stage, PanelOf(t) + p); },
            lanes);
        MultiplyPanel<Weights, kWarpTiles>(block, lanes, p, sums);
      }
      last_stage = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
  }

  // In the ring: of a segment's panels, and then tiles of rows, the i-th.
  static OUTRIDER_HD uint32_t TileAt(uint32_t segment, uint32_t stage, uint32_t i) {
    return (stage * kStageTiles + segment * kSegmentTiles + i) * kTileDwords;
  }

  // Of its segment a warp copies every fourth panel and tile of rows.
  OUTRIDER_HD Sources SourcesOf(uint32_t t, const Place& place) const {
    const uint32_t i = t / kWarpLanes % kSegmentWarps;
    Sources sources;
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kPanels / kSegmentWarps; ++p) {
      sources.weights[p] =
          SourceOfWeights(product, place.output / kTileOutputs + p * kSegmentWarps + i, t);
    }
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles / kSegmentWarps; ++tile) {
      sources.rows[tile] = SourceOfRows(product, product.x.terms, product.x.value_stride,
                                        place.row + (tile * kSegmentWarps + i) * kTileRows, t);
    }
    return sources;
  }

  template <typename Shared>
  OUTRIDER_HD void Copy(uint32_t t, const Sources& sources, uint32_t quarter, uint32_t step,
                        uint32_t stage, const Shared& shared) const {
    const uint32_t i = t / kWarpLanes % kSegmentWarps, segment = SegmentOf(t);
    const uint32_t first =
        ((quarter * kQuarterSegments + segment) * SegmentSteps(product.inputs) + step) *
        kFloatTileInputs;
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kPanels / kSegmentWarps; ++p) {
      CopyTile(sources.weights[p], first, t, shared, TileAt(segment, stage, p * kSegmentWarps + i));
    }
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles / kSegmentWarps; ++tile) {
      CopyTile(sources.rows[tile], first, t, shared,
               TileAt(segment, stage, kPanels + tile * kSegmentWarps + i));
    }
  }

  template <typename Shared>
  static OUTRIDER_HD void Leave(uint32_t t, const Sums& sums, const Shared& shared) {
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kWarpPanels; ++p) {
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kWarpTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t row = tile * kTileRows + RowOfSum(t, i);
          shared.Set(t,
                     SegmentOf(t) * kPartStride + row * kRowStride +
                         (PanelOf(t) + p) * kTileOutputs + OutputOfSum(t, i),
                     BitsOf(sums.of[p][tile].sums[i]));
        }
      }
    }
  }

  // Leaves a quarter for the last block that comes to this tile of the grid, and is that block or
  // is not. Its results are then the sums of all.
  template <typename Block, typename AllResults>
  OUTRIDER_HD bool MeetOthers(Block& block, size_t tile, uint32_t quarter,
                              AllResults& results) const {
    float* const sums = product.room.sums + tile * (kQuarters * kRows * kOutputs);
    block.Each([&](uint32_t t) {
      ForEachResult(t, [&](uint32_t half, uint32_t j, uint32_t, uint32_t) {
        sums[SumAt(t, quarter, half, j)] = results[t].y[half][j];
      });
    });
    if (!block.IsLastToCome(product.room.counters + tile, kQuarters)) return false;
    block.Each([&](uint32_t t) {
      ForEachResult(t, [&](uint32_t half, uint32_t j, uint32_t, uint32_t) {
        float y = 0;
        OUTRIDER_UNROLL
        for (uint32_t q = 0; q < kQuarters; ++q) y = y + sums[SumAt(t, q, half, j)];
        results[t].y[half][j] = y;
      });
    });
    return true;
  }

  // A warp writes what lies side by side.
  static OUTRIDER_HD size_t SumAt(uint32_t t, uint32_t quarter, uint32_t half, uint32_t j) {
    return ((quarter * kHalves + half) * kResults + j) * kThreads + t;
  }
};

}  // namespace outrider::gpu
