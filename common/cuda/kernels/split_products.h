// Products with weights in F16 and BF16, by tensor cores: for any number of rows, with bits that
// are a GPU's own and not the processor's (common/kernels/NUMERICS.md has an order of additions
// that tensor cores do not keep).
//
// Tensor cores multiply bfloat16s. A float is three of them, exactly: the upper half of its bits,
// the upper half of what is left, and what is left then, eight bits of its mantissa each; an F16 is
// two. So a tile is multiplied three times, or six, the least terms first. All that is lost is lost
// in sums:
//
//   segment    256 inputs, 16 tiles; its sum begins at zero and goes through the tiles in order
//   result     0 + the first segment + the second ...
//
// The instructions that give a segment, and the order in which segments are added, are the same
// for every number of rows and for both kernels below, so a row's bits depend neither on how many
// rows there are, nor on which kernel ran. F32 weights would be nine products, and keep the
// processor's bits instead (products.h).
//
// TF32 would take F16 weights whole, and a float in three terms as well: three products at half the
// speed, for the same time, and a second instruction whose habits nobody knows.
//
// What hurts. Terms are cut off and not rounded, so they are never larger than the float: no
// outlier overflows. Below 2^-110 the last term would be smaller than bfloat16s go: of a float,
// less than 2^-133 is lost, and less than 2^-125 where tensor cores take subnormal numbers for
// zero. An infinity leaves infinity less infinity for the second term: like NaN, it gives NaN. So
// do, mostly, weights that are not finite.
//
//   dealt segments    up to 256 rows: the segments of two or four panels are dealt to the warps of
//                     a block, and their sums meet in shared memory. Up to 16 rows a block has two,
//                     so that every multiprocessor has a block and is reading; with more rows it
//                     has four: floats are fetched from the cache, and split, once for 64 outputs.
//   own rows          more: each warp has four panels and 32 rows of its own, and adds up their
//                     segments in registers
//
//   grid: rows / kRows rounded up, panels / kPanels rounded up
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/products.h"

namespace outrider::gpu {

inline constexpr uint32_t kRowTerms = 3;
inline constexpr uint32_t kSplitSegment = 256;
inline constexpr uint32_t kSplitSteps = kSplitSegment / kFloatTileInputs;

// In a tile, a lane has inputs 4 * place ..+3 (as its inputs 2 * place, + 1, + 8 and + 9), so that
// a row's are one load; and outputs 2 * group and + 1 (as group and group + 8), which lie side by
// side in a panel's line. Dword i of these has the i-th input.
OUTRIDER_HD uint32_t OutputOfLine(uint32_t line) {
  return 2 * (line % 8) + line / 8;
}

OUTRIDER_HD float LessUpperHalf(float x) {
  return x - FloatOf(BitsOf(x) & 0xffff0000u);
}

struct Bf16Weights {
  static constexpr uint32_t kTerms = 1;

  static OUTRIDER_HD void Split(const uint32_t (&w)[4], WeightFragment (&terms)[kTerms]) {
    terms[0] = {{LowerHalves(w[0], w[1]), UpperHalves(w[0], w[1]), LowerHalves(w[2], w[3]),
                 UpperHalves(w[2], w[3])}};
  }
};

struct F16Weights {
  static constexpr uint32_t kTerms = 2;

  static OUTRIDER_HD void Split(const uint32_t (&w)[4], WeightFragment (&terms)[kTerms]) {
    OUTRIDER_UNROLL
    for (uint32_t d = 0; d < 4; ++d) {
      const uint32_t shift = 16 * (d % 2);
      const float first = WidenHalf(static_cast<uint16_t>(w[d / 2 * 2] >> shift));
      const float second = WidenHalf(static_cast<uint16_t>(w[d / 2 * 2 + 1] >> shift));
      terms[0].dwords[d] = UpperHalves(BitsOf(LessUpperHalf(first)), BitsOf(LessUpperHalf(second)));
      terms[1].dwords[d] = UpperHalves(BitsOf(first), BitsOf(second));
    }
  }
};

// A lane's part of a panel's tile that begins with input `first`; zeros beyond the last input.
template <typename Weights>
OUTRIDER_HD void LoadWeights(const Product& product, uint32_t panel, uint32_t first,
                             uint32_t thread, WeightFragment (&terms)[Weights::kTerms]) {
  uint32_t dwords[4] = {};
  const uint32_t k = first + 4 * PlaceOf(thread);
  if (panel * kTileOutputs < product.outputs && k < product.inputs) {
    const std::byte* const line = product.PanelAt(panel) + size_t{k} * (2 * kTileOutputs);
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      dwords[i] =
          *reinterpret_cast<const uint32_t*>(line + i * (2 * kTileOutputs) + 4 * GroupOf(thread));
    }
  }
  Weights::Split(dwords, terms);
}

// And of eight rows from `first_row` on; zeros beyond the last row too.
OUTRIDER_HD void LoadRows(const GpuRows& x, uint32_t first_row, uint32_t first, uint32_t thread,
                          RowFragment (&terms)[kRowTerms]) {
  struct alignas(16) Four {
    float at[4];
  };
  Four left = {};
  const uint32_t row = first_row + GroupOf(thread), k = first + 4 * PlaceOf(thread);
  if (row < x.row_count && k < x.inputs) {
    left = *reinterpret_cast<const Four*>(x.values + row * x.value_stride + k);
  }
  OUTRIDER_UNROLL
  for (uint32_t term = 0; term < kRowTerms; ++term) {
    OUTRIDER_UNROLL
    for (uint32_t d = 0; d < 2; ++d) {
      terms[kRowTerms - 1 - term].dwords[d] =
          UpperHalves(BitsOf(left.at[2 * d]), BitsOf(left.at[2 * d + 1]));
    }
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < 4; ++i) left.at[i] = LessUpperHalf(left.at[i]);
  }
}

// Of the panels and tiles of rows that a warp multiplies.
template <uint32_t kPanels, uint32_t kTiles>
struct TileSums {
  FloatSumFragment of[kPanels][kTiles];
};

// Which those are, and of which segment.
struct TilePlace {
  uint32_t panel, row;  // the first
  uint32_t segment;     // past the last: nothing is multiplied
};

// What a segment comes to. place_of(thread) is a TilePlace, alike in a warp; row tiles from
// `tile_count` on are nobody's, in any warp.
template <typename Weights, uint32_t kPanels, uint32_t kTiles, typename Block, typename Where,
          typename Sums>
OUTRIDER_HD void MultiplySegment(Block& block, const Product& product, const Where& place_of,
                                 uint32_t tile_count, Sums& sums) {
  struct Lane {
    WeightFragment weights[kPanels][Weights::kTerms];
    RowFragment rows[kRowTerms];
  };
  auto lanes = block.template Private<Lane>();
  block.Each([&](uint32_t t) { sums[t] = {}; });
  for (uint32_t step = 0; step < kSplitSteps; ++step) {
    block.Each([&](uint32_t t) {
      const TilePlace place = place_of(t);
      OUTRIDER_UNROLL
      for (uint32_t p = 0; p < kPanels; ++p) {
        LoadWeights<Weights>(product, place.panel + p,
                             place.segment * kSplitSegment + step * kFloatTileInputs, t,
                             lanes[t].weights[p]);
      }
    });
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (tile >= tile_count) continue;
      block.Each([&](uint32_t t) {
        const TilePlace place = place_of(t);
        LoadRows(product.x, place.row + tile * kTileRows,
                 place.segment * kSplitSegment + step * kFloatTileInputs, t, lanes[t].rows);
      });
      OUTRIDER_UNROLL
      for (uint32_t term = 0; term < Weights::kTerms * kRowTerms; ++term) {
        OUTRIDER_UNROLL
        for (uint32_t p = 0; p < kPanels; ++p) {
          block.MultiplyFloatTiles([&](uint32_t t) {
            return FloatTile{&lanes[t].weights[p][term / kRowTerms],
                             &lanes[t].rows[term % kRowTerms], &sums[t].of[p][tile]};
          });
        }
      }
    }
  }
}

OUTRIDER_HD uint32_t SegmentCount(uint32_t inputs) {
  return (inputs + kSplitSegment - 1) / kSplitSegment;
}

// Row tiles of a block that have rows.
OUTRIDER_HD uint32_t TilesWithRows(uint32_t row_count, uint32_t first_row) {
  return first_row >= row_count ? 0 : (row_count - first_row + kTileRows - 1) / kTileRows;
}

// Requires inputs % 4 == 0 and rows of x that begin on 16 bytes.
template <typename Weights, uint32_t kPanelCount, uint32_t kTiles, uint32_t kWarps>
struct DealtSegmentsProduct {
  using WeightsType = Weights;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kPanels = kPanelCount;  // of a block, and of each of its warps
  static constexpr uint32_t kRows = kTiles * kTileRows;
  static constexpr uint32_t kWarpRows = kRows;
  static constexpr uint32_t kWarpPanels = kPanels;
  static constexpr uint32_t kOutputs = kPanels * kTileOutputs;
  // Of a row's outputs in shared memory: no two lanes of a warp write to the same bank.
  static constexpr uint32_t kRowStride = kOutputs + 4;
  static constexpr uint32_t kPartStride = kRows * kRowStride;
  static constexpr uint32_t kResults = kRows * kOutputs / kThreads;  // of a thread
  static_assert(kRows * kOutputs % kThreads == 0);

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return kWarps * kPartStride * sizeof(float); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    struct Results {
      float y[kResults];
    };
    const uint32_t first_row = block.x() * kRows, first_panel = block.y() * kPanels;
    const uint32_t segment_count = SegmentCount(product.inputs);
    const auto parts = block.template Share<float>(kWarps * kPartStride);
    auto sums = block.template Private<TileSums<kPanels, kTiles>>();
    auto results = block.template Private<Results>();
    for (uint32_t first = 0; first < segment_count; first += kWarps) {
      MultiplySegment<Weights, kPanels, kTiles>(
          block, product,
          [=](uint32_t t) {
            return TilePlace{first_panel, first_row, first + t / kWarpLanes};
          },
          TilesWithRows(product.x.row_count, first_row), sums);
      block.Each([&](uint32_t t) { Leave(t, sums[t], parts); });
      block.Sync();
      block.Each([&](uint32_t t) {
        for (uint32_t i = 0; i < kWarps && first + i < segment_count; ++i) {
          OUTRIDER_UNROLL
          for (uint32_t j = 0; j < kResults; ++j) {
            const uint32_t result = j * kThreads + t;
            const uint32_t at = result / kOutputs * kRowStride + result % kOutputs;
            results[t].y[j] = results[t].y[j] + parts.Get(t, i * kPartStride + at);
          }
        }
      });
      block.Sync();
    }
    block.Each([&](uint32_t t) {
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kResults; ++j) {
        const uint32_t result = j * kThreads + t, column = result % kOutputs;
        product.Store(first_row + result / kOutputs,
                      (first_panel + column / kTileOutputs) * kTileOutputs +
                          OutputOfLine(column % kTileOutputs),
                      results[t].y[j]);
      }
    });
  }

 private:
  template <typename Shared>
  static OUTRIDER_HD void Leave(uint32_t t, const TileSums<kPanels, kTiles>& sums,
                                const Shared& parts) {
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kPanels; ++p) {
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t row = tile * kTileRows + RowOfSum(t, i);
          parts.Set(t,
                    t / kWarpLanes * kPartStride + row * kRowStride + p * kTileOutputs +
                        OutputOfSum(t, i),
                    sums.of[p][tile].sums[i]);
        }
      }
    }
  }
};

// Warps of a block that have the same panels, and those that have the same rows, go through the
// segments together: what one has fetched the others find in their multiprocessor's cache.
template <typename Weights>
struct OwnRowsProduct {
  using WeightsType = Weights;
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kTiles = 4;  // of a warp
  static constexpr uint32_t kWarpRows = kTiles * kTileRows;
  static constexpr uint32_t kWarpPanels = 4;
  static constexpr uint32_t kRows = 4 * kWarpRows;
  static constexpr uint32_t kPanels = 2 * kWarpPanels;
  static_assert(kThreads / kWarpLanes == kRows / kWarpRows * (kPanels / kWarpPanels));

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t x = block.x(), y = block.y();
    auto sums = block.template Private<TileSums<kWarpPanels, kTiles>>();
    auto results = block.template Private<TileSums<kWarpPanels, kTiles>>();
    const uint32_t tile_count = TilesWithRows(product.x.row_count, x * kRows);
    for (uint32_t segment = 0; segment < SegmentCount(product.inputs); ++segment) {
      MultiplySegment<Weights, kWarpPanels, kTiles>(
          block, product,
          [=](uint32_t t) {
            return TilePlace{FirstPanel(y, t), FirstRow(x, t), segment};
          },
          tile_count, sums);
      block.Each([&](uint32_t t) { Add(sums[t], results[t]); });
      block.Sync();
    }
    block.Each([&](uint32_t t) {
      ForEach([&](uint32_t p, uint32_t tile, uint32_t i) {
        product.Store(FirstRow(x, t) + tile * kTileRows + RowOfSum(t, i),
                      (FirstPanel(y, t) + p) * kTileOutputs + OutputOfLine(OutputOfSum(t, i)),
                      results[t].of[p][tile].sums[i]);
      });
    });
  }

 private:
  static OUTRIDER_HD uint32_t FirstRow(uint32_t x, uint32_t t) {
    return x * kRows + t / kWarpLanes % 4 * kWarpRows;
  }
  static OUTRIDER_HD uint32_t FirstPanel(uint32_t y, uint32_t t) {
    return y * kPanels + t / kWarpLanes / 4 * kWarpPanels;
  }

  template <typename Use>
  static OUTRIDER_HD void ForEach(const Use& use) {
    OUTRIDER_UNROLL
    for (uint32_t p = 0; p < kWarpPanels; ++p) {
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        OUTRIDER_UNROLL
        for (uint32_t i = 0; i < 4; ++i) use(p, tile, i);
      }
    }
  }

  static OUTRIDER_HD void Add(const TileSums<kWarpPanels, kTiles>& sums,
                              TileSums<kWarpPanels, kTiles>& results) {
    ForEach([&](uint32_t p, uint32_t tile, uint32_t i) {
      float& result = results.of[p][tile].sums[i];
      result = result + sums.of[p][tile].sums[i];
    });
  }
};

}  // namespace outrider::gpu
