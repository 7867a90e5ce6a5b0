// Products with F16 and BF16 weights (split_products.h) and few rows: what they take is the reading
// of weights, so as much of it as possible is on its way at any time. A block has all inputs of one
// or two panels. Each of its warps has a segment of these, and a ring of tiles in shared memory
// that it fills by itself while it multiplies, waiting for no other; sums meet once, at the end.
//
//   grid: rows / kRows rounded up, panels / kPanels rounded up
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/split_products.h"

namespace outrider::gpu {

// Requires inputs % 4 == 0 and rows of x that begin on 16 bytes.
template <typename Weights, uint32_t kPanelCount, uint32_t kTileCount>
struct FewRowsSplit {
  using WeightsType = Weights;
  static constexpr uint32_t kThreads = kSegments * kWarpLanes;
  static constexpr bool kGoesJointly = true;
  // Of a block, and of each of its warps.
  static constexpr uint32_t kPanels = kPanelCount;
  static constexpr uint32_t kTiles = kTileCount;
  static constexpr uint32_t kRows = kTiles * kTileRows;
  static constexpr uint32_t kWarpPanels = kPanels;
  static constexpr uint32_t kWarpRows = kRows;
  static constexpr uint32_t kOutputs = kPanels * kTileOutputs;
  // A ring takes 96 KiB: an H100 has room for two of these, and others have for one.
  static constexpr uint32_t kStages = 12 / (kPanels + kTiles);
  static constexpr uint32_t kStageDwords = (kPanels + kTiles) * kTileDwords;  // of a warp
  static constexpr uint32_t kRingDwords = kStages * kStageDwords;
  // Of a row's outputs in shared memory: no two lanes of a warp write to the same bank.
  static constexpr uint32_t kRowStride = kOutputs + 4;
  static constexpr uint32_t kPartStride = kRows * kRowStride;
  static constexpr uint32_t kResults = kRows * kOutputs;
  static_assert(kResults <= kThreads && kPartStride <= kRingDwords);

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return kSegments * kRingDwords * sizeof(uint32_t); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t first_row = block.x() * kRows, first_panel = block.y() * kPanels;
    const auto shared = block.template Share<uint32_t>(kSegments * kRingDwords);
    auto sums = block.template Private<TileSums<kPanels, kTiles>>();
    MultiplySegments(block, first_row, first_panel, shared, sums);
    block.Sync();
    block.Each([&](uint32_t t) { Leave(t, sums[t], shared); });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kResults) return;
      const uint32_t row = t / kOutputs, column = t % kOutputs;
      product.Store(first_row + row, first_panel * kTileOutputs + column,
                    AddSegments(t, row * kRowStride + column, shared));
    });
  }

 private:
  struct Sources {
    TileSource weights[kPanels], rows[kTiles];
  };

  template <typename Block, typename Shared, typename Sums>
  OUTRIDER_HD void MultiplySegments(Block& block, uint32_t first_row, uint32_t first_panel,
                                    const Shared& shared, Sums& sums) const {
    const uint32_t steps = SegmentSteps(product.inputs);
    auto lanes = block.template Private<SplitLane<Weights, kTiles>>();
    auto sources = block.template Private<Sources>();
    block.Each([&](uint32_t t) { sources[t] = SourcesOf(t, first_row, first_panel); });
    const auto copy = [&](uint32_t step, uint32_t stage) {
      if (step < steps) {
        block.Each([&](uint32_t t) { Copy(t, sources[t], step, stage, shared); });
      }
      block.CloseBatch();
    };
    for (uint32_t step = 0; step + 1 < kStages; ++step) copy(step, step);
    uint32_t stage = 0, last_stage = kStages - 1;
    for (uint32_t step = 0; step < steps; ++step) {
      block.template AwaitBatches<kStages - 2>();
      block.template SyncGroups<kWarpLanes>();
      copy(step + kStages - 1, last_stage);
      block.Each([&](uint32_t t) {
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          lanes[t].rows[tile] = ReadRows(t, stage, tile, shared);
        }
      });
      OUTRIDER_UNROLL
      for (uint32_t p = 0; p < kPanels; ++p) {
        ReadPanel<Weights>(
            block, shared, [&](uint32_t t) { return StageAt(t, stage) + p * kTileDwords; }, lanes);
        MultiplyPanel<Weights, kTiles>(block, lanes, p, sums);
      }
      last_stage = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
  }

  OUTRIDER_HD Sources SourcesOf(uint32_t t, uint32_t first_row, uint32_t first_panel) const {
    Sources sources;
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kPanels; ++p) {
      sources.weights[p] = SourceOfWeights(product, first_panel + p, t);
    }
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      sources.rows[tile] = SourceOfRows(product, product.x.values, product.x.value_stride,
                                        first_row + tile * kTileRows, t);
    }
    return sources;
  }

  // Where a stage of a thread's warp begins, and its tiles of rows do.
  static OUTRIDER_HD uint32_t StageAt(uint32_t t, uint32_t stage) {
    return t / kWarpLanes * kRingDwords + stage * kStageDwords;
  }
  static OUTRIDER_HD uint32_t RowsAt(uint32_t t, uint32_t stage, uint32_t tile) {
    return StageAt(t, stage) + (kPanels + tile) * kTileDwords;
  }

  template <typename Shared>
  OUTRIDER_HD void Copy(uint32_t t, const Sources& sources, uint32_t step, uint32_t stage,
                        const Shared& shared) const {
    const uint32_t first =
        (t / kWarpLanes * SegmentSteps(product.inputs) + step) * kFloatTileInputs;
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kPanels; ++p) {
      CopyTile(sources.weights[p], first, t, shared, StageAt(t, stage) + p * kTileDwords);
    }
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      CopyTile(sources.rows[tile], first, t, shared, RowsAt(t, stage, tile));
    }
  }

  template <typename Shared>
  static OUTRIDER_HD RowTerms ReadRows(uint32_t t, uint32_t stage, uint32_t tile,
                                       const Shared& shared) {
    const Four<uint32_t> x = shared.GetFour(t, RowsAt(t, stage, tile) + 4 * LaneOf(t));
    return TermsOf(
        SplitFour({{FloatOf(x.at[0]), FloatOf(x.at[1]), FloatOf(x.at[2]), FloatOf(x.at[3])}}));
  }

  template <typename Shared>
  static OUTRIDER_HD void Leave(uint32_t t, const TileSums<kPanels, kTiles>& sums,
                                const Shared& shared) {
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kPanels; ++p) {
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t row = tile * kTileRows + RowOfSum(t, i);
          shared.Set(t,
                     t / kWarpLanes * kPartStride + row * kRowStride + p * kTileOutputs +
                         OutputOfSum(t, i),
                     BitsOf(sums.of[p][tile].sums[i]));
        }
      }
    }
  }

  template <typename Shared>
  static OUTRIDER_HD float AddSegments(uint32_t t, uint32_t at, const Shared& shared) {
    float result = 0;
    OUTRIDER_UNROLL
    for (uint32_t q = 0; q < kQuarters; ++q) {
      float quarter = 0;
      OUTRIDER_UNROLL
      for (uint32_t i = 0; i < kQuarterSegments; ++i) {
        quarter = quarter + FloatOf(shared.Get(t, (q * kQuarterSegments + i) * kPartStride + at));
      }
      result = result + quarter;
    }
    return result;
  }
};

}  // namespace outrider::gpu
