// Products of activation rows with weights in panels (kernels/panel_layout.h), quantised or F32
// (split_products.h has F16 and BF16), for any number of rows, with the bits of
// kernels/NUMERICS.md, section 4. A result is one float to which block after block is added, in
// order, whatever computes the blocks:
//
//   few rows    blocks of a panel are dealt to the warps of a thread block, whose tensor cores give
//               exact integers; these meet in shared memory, where one thread for each output and
//               row adds them up, round after round
//   many rows   every warp has rows of its own and goes through all blocks; sums stay in registers
//   floats      segments of 32 inputs are dealt to threads, and meet as the blocks above do
//
// So the bits depend neither on how many rows there are, nor on which of these ran. Each reads a
// panel once for so many rows: 8, 64 and 8. Blocks that read the same panel are neighbours, and so
// at work at the same time: whatever the matrix's size, all but the first find it in the cache.
//
//   grid: rows / kRows rounded up, panels / kPanels rounded up
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/quant_blocks.h"
#include "common/kernels/activations.h"

namespace outrider::gpu {

// Where blocks that share out the inputs of a product leave their sums (some_rows_split.h).
struct SumsRoom {
  float* sums = nullptr;
  uint32_t* counters = nullptr;  // all zero before a product, and after it
};

// out[r, n] = sum over k of weights[n, k] * x[r, k], + bias[n]
struct Product {
  const std::byte* panels;
  size_t panel_bytes;
  uint32_t outputs;
  uint32_t inputs;
  const float* bias;  // [outputs]; null: none
  ActivationRows x;   // in the form the weights' type asks for; values and quants on 16 bytes
  float* out;         // [rows, out_stride]
  size_t out_stride;
  SumsRoom room = {};  // null: blocks share nothing out

  OUTRIDER_HD const std::byte* PanelAt(uint32_t panel) const {
    return panels + panel * panel_bytes;
  }
  OUTRIDER_HD void Store(uint32_t row, uint32_t output, float y) const {
    if (row >= x.row_count || output >= outputs) return;
    out[row * out_stride + output] = bias == nullptr ? y : y + bias[output];
  }
  // A result that is not complete, and what a thread has kept of it.
  OUTRIDER_HD void Keep(uint32_t row, uint32_t output, float sum) const {
    if (row < x.row_count && output < outputs) out[row * out_stride + output] = sum;
  }
  OUTRIDER_HD float Kept(uint32_t row, uint32_t output) const {
    return row < x.row_count && output < outputs ? out[row * out_stride + output] : 0;
  }
};

// Four quants of a row, or zeros where there is no such row.
OUTRIDER_HD uint32_t QuantsAt(const ActivationRows& x, uint32_t row, uint32_t k) {
  if (row >= x.row_count) return 0;
  return *reinterpret_cast<const uint32_t*>(x.quants + row * x.quant_stride + k);
}

// The lane's part of eight rows from `first_row` on, of a block's step-th tile.
template <typename Type>
OUTRIDER_HD RowFragment RowTile(const ActivationRows& x, uint32_t first_row, uint32_t thread,
                                uint32_t b, uint32_t step) {
  const uint32_t row = first_row + GroupOf(thread);
  const uint32_t k = b * Type::kBlock + step * Type::kTileStep + 4 * PlaceOf(thread);
  return {{QuantsAt(x, row, k),
           Type::kTileStep == kTileInputs ? QuantsAt(x, row, k + kTileInputs / 2) : 0}};
}

// What a block comes to, for one output and row, as exact integers.
struct BlockTerm {
  int32_t product = 0;
  int32_t minimum = 0;
};

// Adds a step's tile to a lane's terms.
template <typename Type>
OUTRIDER_HD void AddTile(const PanelBlock& weights, const ActivationRows& x, uint32_t first_row,
                         uint32_t thread, uint32_t b, uint32_t step, const SumFragment& tile,
                         BlockTerm (&terms)[4]) {
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t n = OutputOfSum(thread, i);
    terms[i].product += Type::Scale(weights, n, step) * tile.sums[i];
    if constexpr (Type::kHasMinimum) {
      const uint32_t row = first_row + RowOfSum(thread, i);
      if (row >= x.row_count) continue;
      const int16_t* const sums =
          x.sums + row * x.sum_stride + (b * Type::kBlock + step * Type::kTileStep) / 16;
      terms[i].minimum += Type::Minimum(weights, n, step) * (sums[0] + sums[1]);
    }
  }
}

template <typename Type>
OUTRIDER_HD float AddBlock(const PanelBlock& weights, uint32_t n, const BlockTerm& term, float dx,
                           float y) {
  y = Fma(static_cast<float>(term.product), weights.Half(0, n) * dx, y);
  if constexpr (Type::kHasMinimum) {
    y = Fma(static_cast<float>(-term.minimum), weights.Half(1, n) * dx, y);
  }
  return y;
}

template <typename Type>
struct FewRowsProduct {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kRows = kTileRows;
  static constexpr uint32_t kWarps = kThreads / kWarpLanes;
  // Blocks that a warp has of a round: 128 inputs or more between two Sync()s.
  static constexpr uint32_t kStrip = Type::kBlock >= 128 ? 1 : 128 / Type::kBlock;
  static constexpr uint32_t kRoundBlocks = kWarps * kStrip;
  static constexpr uint32_t kSteps = Type::kBlock / Type::kTileStep;
  // Of a row's outputs in shared memory: with 20, no two lanes of a warp write to the same bank.
  static constexpr uint32_t kRowStride = 20;
  static constexpr uint32_t kBlockStride = kTileRows * kRowStride;
  static constexpr uint32_t kKinds = Type::kHasMinimum ? 2 : 1;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const {
    return kKinds * kRoundBlocks * kBlockStride * sizeof(int32_t);
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const std::byte* const panel = product.PanelAt(block.y());
    const uint32_t first_row = block.x() * kRows;
    const uint32_t block_count = product.inputs / Type::kBlock;
    const auto terms = block.template Share<int32_t>(kKinds * kRoundBlocks * kBlockStride);
    auto sums = block.template Private<float>();
    for (uint32_t first = 0; first < block_count; first += kRoundBlocks) {
      for (uint32_t i = 0; i < kStrip; ++i) Multiply(block, panel, first_row, first, i, terms);
      block.Sync();
      block.Each([&](uint32_t t) {
        if (t >= kTileRows * kTileOutputs) return;
        const uint32_t r = t / kTileOutputs, n = t % kTileOutputs;
        if (first_row + r >= product.x.row_count) return;
        for (uint32_t i = 0; i < kRoundBlocks && first + i < block_count; ++i) {
          const uint32_t at = i * kBlockStride + r * kRowStride + n;
          BlockTerm term;
          term.product = terms.Get(t, at);
          if (kKinds == 2) term.minimum = terms.Get(t, kRoundBlocks * kBlockStride + at);
          sums[t] = AddBlock<Type>(BlockOf<Type>(panel, product.inputs, first + i), n, term,
                                   DxOf(first + i, first_row + r), sums[t]);
        }
      });
      block.Sync();
    }
    block.Each([&](uint32_t t) {
      if (t >= kTileRows * kTileOutputs) return;
      product.Store(first_row + t / kTileOutputs, block.y() * kTileOutputs + t % kTileOutputs,
                    sums[t]);
    });
  }

 private:
  OUTRIDER_HD float DxOf(uint32_t b, uint32_t row) const {
    return product.x.scales[b * product.x.scale_stride + row];
  }

  // Every warp's i-th block of the round that begins with block `first`.
  template <typename Block, typename Shared>
  OUTRIDER_HD void Multiply(Block& block, const std::byte* panel, uint32_t first_row,
                            uint32_t first, uint32_t i, const Shared& terms) const {
    struct Lane {
      BlockTerm terms[4];
    };
    const uint32_t block_count = product.inputs / Type::kBlock;
    auto lanes = block.template Private<Lane>();
    auto weights = block.template Private<WeightFragment>();
    auto rows = block.template Private<RowFragment>();
    auto tiles = block.template Private<SumFragment>();
    for (uint32_t step = 0; step < kSteps; ++step) {
      block.Each([&](uint32_t t) {
        const uint32_t b = first + t / kWarpLanes * kStrip + i;
        tiles[t] = {};
        if (b >= block_count) return;  // what was there of another block is not looked at
        weights[t] = Type::Tile(BlockOf<Type>(panel, product.inputs, b), t, step);
        rows[t] = RowTile<Type>(product.x, first_row, t, b, step);
      });
      block.MultiplyTiles(weights, rows, tiles);
      block.Each([&](uint32_t t) {
        const uint32_t b = first + t / kWarpLanes * kStrip + i;
        if (b >= block_count) return;
        AddTile<Type>(BlockOf<Type>(panel, product.inputs, b), product.x, first_row, t, b, step,
                      tiles[t], lanes[t].terms);
      });
    }
    block.Each([&](uint32_t t) {
      const uint32_t place = t / kWarpLanes * kStrip + i;
      if (first + place >= block_count) return;
      for (uint32_t s = 0; s < 4; ++s) {
        const uint32_t at = place * kBlockStride + RowOfSum(t, s) * kRowStride + OutputOfSum(t, s);
        terms.Set(t, at, lanes[t].terms[s].product);
        if (kKinds == 2) {
          terms.Set(t, kRoundBlocks * kBlockStride + at, lanes[t].terms[s].minimum);
        }
      }
    });
  }
};

template <typename Type>
struct ManyRowsProduct {
  static constexpr uint32_t kThreads = 128;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kWarpTiles = 2;  // of eight rows
  static constexpr uint32_t kRows = kThreads / kWarpLanes * kWarpTiles * kTileRows;
  static constexpr uint32_t kSteps = Type::kBlock / Type::kTileStep;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    struct Sums {
      float y[kWarpTiles][4];
    };
    const std::byte* const panel = product.PanelAt(block.y());
    auto sums = block.template Private<Sums>();
    for (uint32_t b = 0; b < product.inputs / Type::kBlock; ++b) {
      AddBlockOf(block, BlockOf<Type>(panel, product.inputs, b), b, sums);
    }
    block.Each([&](uint32_t t) {
      for (uint32_t tile = 0; tile < kWarpTiles; ++tile) {
        for (uint32_t i = 0; i < 4; ++i) {
          product.Store(FirstRow(block.x(), t, tile) + RowOfSum(t, i),
                        block.y() * kTileOutputs + OutputOfSum(t, i), sums[t].y[tile][i]);
        }
      }
    });
  }

 private:
  static OUTRIDER_HD uint32_t FirstRow(uint32_t y, uint32_t t, uint32_t tile) {
    return y * kRows + (t / kWarpLanes * kWarpTiles + tile) * kTileRows;
  }

  template <typename Block, typename Sums>
  OUTRIDER_HD void AddBlockOf(Block& block, const PanelBlock& from, uint32_t b, Sums& sums) const {
    struct Lane {
      BlockTerm terms[kWarpTiles][4];
    };
    auto lanes = block.template Private<Lane>();
    auto weights = block.template Private<WeightFragment>();
    auto rows = block.template Private<RowFragment>();
    auto tiles = block.template Private<SumFragment>();
    for (uint32_t step = 0; step < kSteps; ++step) {
      block.Each([&](uint32_t t) { weights[t] = Type::Tile(from, t, step); });
      for (uint32_t tile = 0; tile < kWarpTiles; ++tile) {
        block.Each([&](uint32_t t) {
          tiles[t] = {};
          rows[t] = RowTile<Type>(product.x, FirstRow(block.x(), t, tile), t, b, step);
        });
        block.MultiplyTiles(weights, rows, tiles);
        block.Each([&](uint32_t t) {
          AddTile<Type>(from, product.x, FirstRow(block.x(), t, tile), t, b, step, tiles[t],
                        lanes[t].terms[tile]);
        });
      }
    }
    block.Each([&](uint32_t t) {
      for (uint32_t tile = 0; tile < kWarpTiles; ++tile) {
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t row = FirstRow(block.x(), t, tile) + RowOfSum(t, i);
          if (row >= product.x.row_count) continue;
          const float dx = product.x.scales[b * product.x.scale_stride + row];
          sums[t].y[tile][i] = AddBlock<Type>(from, OutputOfSum(t, i), lanes[t].terms[tile][i], dx,
                                              sums[t].y[tile][i]);
        }
      }
    });
  }
};

// Requires inputs % 4 == 0 and rows of x that begin on 16 bytes.
struct FloatProduct {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kRows = kTileRows;
  static constexpr uint32_t kSegment = 32;
  static constexpr uint32_t kPairs = kTileOutputs / 2;
  static constexpr uint32_t kRoundSegments = kThreads / kPairs;
  static constexpr uint32_t kSegmentStride = kRows * kTileOutputs + 16;  // neighbours' banks differ

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return kRoundSegments * kSegmentStride * sizeof(float); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t first_row = block.x() * kRows;
    const uint32_t segment_count = (product.inputs + kSegment - 1) / kSegment;
    const auto parts = block.template Share<float>(kRoundSegments * kSegmentStride);
    auto sums = block.template Private<float>();
    for (uint32_t first = 0; first < segment_count; first += kRoundSegments) {
      block.Each([&](uint32_t t) {
        if (first + t / kPairs >= segment_count) return;
        Parts made = {};
        Multiply(product.PanelAt(block.y()), first_row, first + t / kPairs, t % kPairs, made);
        for (uint32_t r = 0; r < kRows; ++r) {
          const uint32_t at = t / kPairs * kSegmentStride + r * kTileOutputs + 2 * (t % kPairs);
          parts.Set(t, at, made.first[r]);
          parts.Set(t, at + 1, made.second[r]);
        }
      });
      block.Sync();
      block.Each([&](uint32_t t) {
        if (t >= kRows * kTileOutputs) return;
        for (uint32_t i = 0; i < kRoundSegments && first + i < segment_count; ++i) {
          sums[t] = sums[t] + parts.Get(t, i * kSegmentStride + t);
        }
      });
      block.Sync();
    }
    block.Each([&](uint32_t t) {
      if (t >= kRows * kTileOutputs) return;
      product.Store(first_row + t / kTileOutputs, block.y() * kTileOutputs + t % kTileOutputs,
                    sums[t]);
    });
  }

 private:
  // Of two outputs.
  struct Parts {
    float first[kRows];
    float second[kRows];
  };
  struct alignas(16) Four {
    float at[4];
  };

  OUTRIDER_HD void Multiply(const std::byte* panel, uint32_t first_row, uint32_t segment,
                            uint32_t pair, Parts& parts) const {
    const uint32_t begin = segment * kSegment;
    const uint32_t end = begin + kSegment < product.inputs ? begin + kSegment : product.inputs;
    for (uint32_t k = begin; k < end; k += 4) {
      Pair<float> w[4];  // of two outputs that lie side by side in a panel's line
      for (uint32_t i = 0; i < 4; ++i) {
        const auto* const at =
            reinterpret_cast<const float*>(panel) + size_t{k + i} * kTileOutputs + 2 * pair;
        w[i] = {at[0], at[1]};
      }
      for (uint32_t r = 0; r < kRows; ++r) {
        if (first_row + r >= product.x.row_count) continue;
        const Four x = *reinterpret_cast<const Four*>(product.x.values +
                                                      (first_row + r) * product.x.value_stride + k);
        for (uint32_t i = 0; i < 4; ++i) {
          parts.first[r] = Fma(w[i].first, x.at[i], parts.first[r]);
          parts.second[r] = Fma(w[i].second, x.at[i], parts.second[r]);
        }
      }
    }
  }
};

}  // namespace outrider::gpu
