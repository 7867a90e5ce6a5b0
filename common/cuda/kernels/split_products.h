// Products with weights in F16 and BF16, by tensor cores: for any number of rows, with bits that
// are a GPU's own and not the processor's (common/kernels/NUMERICS.md has an order of additions
// that tensor cores do not keep).
//
// Tensor cores multiply bfloat16s. A float is taken for two of them: the upper half of its bits,
// and what is left, rounded to nearest, which is off by 2^-16 of the float at the most. An F16 is
// two exactly, and a BF16 is one. So a tile is multiplied twice, or four times, the least terms
// first. (A third term of a float would cost half as much again, for less than what weights in
// these types are off by themselves.) Sums are cut by the weights' inputs alone:
//
//   segment    a sixteenth of the tiles of 16 inputs, rounded up; its sum begins at zero and goes
//              through them in order
//   quarter    0 + its first segment + ... its fourth
//   result     0 + the first quarter + ... the fourth
//
// The instructions that give a segment, and the order in which segments are added, are the same
// for every number of rows and for both kernels, so a row's bits depend neither on how many rows
// there are, nor on which kernel ran:
//
//   few_rows_split.h     8 or 16 rows a block, whose warps have a segment each
//   some_rows_split.h    64 rows: four segments at a time, and quarters for blocks to share out
//
// F32 weights would be nine products, and keep the processor's bits instead (products.h). TF32
// would take F16 weights whole, and a float in two terms that leave less than these: for the time
// of the four products here, by an instruction whose habits nobody knows.
//
// What hurts. The first term is cut off and not rounded, so it is never larger than the float: an
// outlier overflows only where it is within 2^-17 of the largest float. Below 2^-110 the second
// would be smaller than bfloat16s go: of a float, no more than 2^-134 is lost, and less than 2^-125
// where tensor cores take subnormal numbers for zero. An infinity leaves infinity less infinity for
// the second term: like NaN, it gives NaN. So do, mostly, weights that are not finite.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/products.h"

namespace outrider::gpu {

inline constexpr uint32_t kRowTerms = 2;
inline constexpr uint32_t kSegments = 16;
inline constexpr uint32_t kQuarters = 4;
inline constexpr uint32_t kQuarterSegments = kSegments / kQuarters;

// Tiles of a segment; the last segments of few inputs have none.
OUTRIDER_HD uint32_t SegmentSteps(uint32_t inputs) {
  constexpr uint32_t kUnit = kSegments * kFloatTileInputs;
  return (inputs + kUnit - 1) / kUnit;
}

// In a tile, a lane has inputs 4 * place ..+3 (as its inputs 2 * place, + 1, + 8 and + 9), so that
// a row's are one copy.
OUTRIDER_HD uint32_t InputOfTile(uint32_t i) {
  return i % 8 / 2 * 4 + i / 8 * 2 + i % 2;
}

OUTRIDER_HD float UpperHalf(float x) {
  return FloatOf(BitsOf(x) & 0xffff0000u);
}

// --- terms ---

struct Bf16Weights {
  static constexpr uint32_t kTerms = 1;

  static OUTRIDER_HD void Split(const WeightFragment& weights, WeightFragment (&terms)[kTerms]) {
    terms[0] = weights;
  }
};

struct F16Weights {
  static constexpr uint32_t kTerms = 2;

  static OUTRIDER_HD void Split(const WeightFragment& weights, WeightFragment (&terms)[kTerms]) {
    OUTRIDER_UNROLL
    for (uint32_t d = 0; d < 4; ++d) {
      const float first = WidenHalf(static_cast<uint16_t>(weights.dwords[d]));
      const float second = WidenHalf(static_cast<uint16_t>(weights.dwords[d] >> 16));
      terms[0].dwords[d] =
          UpperHalves(BitsOf(first - UpperHalf(first)), BitsOf(second - UpperHalf(second)));
      terms[1].dwords[d] = UpperHalves(BitsOf(first), BitsOf(second));
    }
  }
};

// Of four inputs of a row: both terms, the least first, as a lane has them of a tile.
OUTRIDER_HD Four<uint32_t> SplitFour(const Four<float>& x) {
  const float left[4] = {x.at[0] - UpperHalf(x.at[0]), x.at[1] - UpperHalf(x.at[1]),
                         x.at[2] - UpperHalf(x.at[2]), x.at[3] - UpperHalf(x.at[3])};
  return {{NarrowToBfloat16s(left[0], left[1]), NarrowToBfloat16s(left[2], left[3]),
           UpperHalves(BitsOf(x.at[0]), BitsOf(x.at[1])),
           UpperHalves(BitsOf(x.at[2]), BitsOf(x.at[3]))}};
}

// Rows of floats to rows of terms, which take as much room: the terms of inputs 4 * i ..+3 lie
// where these would. grid: rows, (inputs / 4 + kThreads - 1) / kThreads
struct SplitRows {
  static constexpr uint32_t kThreads = 256;

  const float* x;   // [rows, inputs], on 16 bytes
  uint32_t* terms;  // [rows, inputs], likewise
  uint32_t inputs;  // a multiple of four

  OUTRIDER_HD uint32_t grid_y() const { return (inputs / 4 + kThreads - 1) / kThreads; }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    block.Each([&](uint32_t t) {
      const uint32_t i = block.y() * kThreads + t;
      if (i >= inputs / 4) return;
      const size_t at = size_t{block.x()} * inputs + 4 * i;
      *reinterpret_cast<Four<uint32_t>*>(terms + at) =
          SplitFour(*reinterpret_cast<const Four<float>*>(x + at));
    });
  }
};

// --- tiles in shared memory, 512 bytes each, which a warp copies by 16 bytes a lane ---

inline constexpr uint32_t kTileDwords = 128;

// A panel's tile is 16 lines of two halves, 16 bytes each, one line for each input. Both those that
// eight lanes copy side by side and those that they read together lie on banks of their own.
OUTRIDER_HD uint32_t DwordOfLine(uint32_t line, uint32_t half) {
  const uint32_t place = line % 4 * 2 + half, turned = line / 4 % 2 + line / 8 * 4;
  return (line / 4 * 8 + (place ^ turned)) * 4;
}

// Whence a lane copies its 16 bytes of a tile, in any step; zeros beyond the last input.
struct TileSource {
  const std::byte* from;  // those of input k are k * input_bytes on
  uint32_t input_bytes;
  uint32_t input_count;  // 0: a panel or row that is not there
  uint32_t input;        // of a tile, the lane's first
  uint32_t to;           // in the tile
};

OUTRIDER_HD TileSource SourceOfWeights(const Product& product, uint32_t panel, uint32_t thread) {
  const uint32_t line = LaneOf(thread) / 2, half = thread % 2;
  return {.from = product.PanelAt(panel) + half * 16,
          .input_bytes = 2 * kTileOutputs,
          .input_count = panel * kTileOutputs < product.outputs ? product.inputs : 0,
          .input = line,
          .to = DwordOfLine(line, half)};
}

// Of eight rows of floats, or of their terms, from `first_row` on.
template <typename T>
OUTRIDER_HD TileSource SourceOfRows(const Product& product, const T* rows, size_t stride,
                                    uint32_t first_row, uint32_t thread) {
  const uint32_t row = first_row + GroupOf(thread);
  return {.from = reinterpret_cast<const std::byte*>(rows + row * stride),
          .input_bytes = sizeof(T),
          .input_count = row < product.x.row_count ? product.inputs : 0,
          .input = 4 * PlaceOf(thread),
          .to = 4 * LaneOf(thread)};
}

// The tile that begins with input `first`.
template <typename Shared>
OUTRIDER_HD void CopyTile(const TileSource& source, uint32_t first, uint32_t thread,
                          const Shared& tiles, uint32_t at) {
  const uint32_t k = first + source.input;
  tiles.CopyFour(thread, at + source.to, source.from + size_t{k} * source.input_bytes,
                 k < source.input_count);
}

struct RowTerms {
  RowFragment terms[kRowTerms];
};

OUTRIDER_HD RowTerms TermsOf(const Four<uint32_t>& split) {
  return {{{{split.at[0], split.at[1]}}, {{split.at[2], split.at[3]}}}};
}

// --- sums ---

// Of the panels and tiles of rows that a warp multiplies.
template <uint32_t kPanels, uint32_t kTiles>
struct TileSums {
  FloatSumFragment of[kPanels][kTiles];
};

// What a lane holds of one panel, and of all row tiles that a warp multiplies it with.
template <typename Weights, uint32_t kTiles>
struct SplitLane {
  WeightFragment weights[Weights::kTerms];
  RowTerms rows[kTiles];
};

// Of a panel whose tile begins at tile_at(thread), alike in a warp.
template <typename Weights, typename Block, typename Shared, typename At, typename Lanes>
OUTRIDER_HD void ReadPanel(Block& block, const Shared& tiles, const At& tile_at, Lanes& lanes) {
  auto weights = block.template Private<WeightFragment>();
  block.ReadTransposed(
      tiles,
      [&](uint32_t t) {
        const uint32_t lane = LaneOf(t), input = InputOfTile(lane / 16 * 8 + lane % 8);
        return tile_at(t) + DwordOfLine(input, lane / 8 % 2);
      },
      [&](uint32_t t) { return &weights[t]; });
  block.Each([&](uint32_t t) { Weights::Split(weights[t], lanes[t].weights); });
}

template <typename Weights, uint32_t kTiles, typename Block, typename Lanes, typename Sums>
OUTRIDER_HD void MultiplyPanel(Block& block, Lanes& lanes, uint32_t panel, Sums& sums) {
  OUTRIDER_UNROLL
  for (uint32_t term = 0; term < Weights::kTerms * kRowTerms; ++term) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      block.MultiplyFloatTiles([&](uint32_t t) {
        return FloatTile{&lanes[t].weights[term / kRowTerms],
                         &lanes[t].rows[tile].terms[term % kRowTerms], &sums[t].of[panel][tile]};
      });
    }
  }
}

}  // namespace outrider::gpu
