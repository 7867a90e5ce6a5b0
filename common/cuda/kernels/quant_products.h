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

#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/quant_strips.h"

namespace outrider::gpu {

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
