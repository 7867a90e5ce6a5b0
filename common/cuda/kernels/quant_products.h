// Products of rows in int8 with quantised weights (products.h), by tensor cores. A result is one
// float to which block after block is added, in order (NUMERICS.md, section 4), so what can be done
// side by side is everything but that: a warp takes a strip of blocks of a panel, as many as keep
// its loads in flight, and has of each an exact integer and the factor it counts with.
//
//   dealt strips   up to 32 rows: a panel's strips are dealt to the warps of a block, which load and
//                  multiply them all at once, and add them in turns: a warp waits for the sums of
//                  the one before it, adds its blocks' terms, and hands them on. So weights come from
//                  memory as fast as all warps together can ask for them, once.
//   own rows       more: every warp has 16 rows of its own, goes through all strips of a panel, and
//                  keeps the sums. Warps that have the same panel find it in the cache.
//
// The next strip's weights are on their way while this one is multiplied.
//
//   grid: rows / kRows rounded up, panels
#pragma once

#include <cstddef>
#include <cstdint>

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
// has. Rows beyond the last are the last once more: what is made of them is not stored.
template <uint32_t kTiles>
struct LaneRows {
  const int8_t* quants[kTiles];
  const float* scales[kTiles];  // of the first of two
  const int16_t* sums[kTiles];
  uint32_t second[kTiles];  // is so many rows on

  OUTRIDER_HD void Find(const ActivationRows& x, uint32_t first_row, uint32_t thread) {
    const uint32_t last = x.row_count - 1;
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const uint32_t row = first_row + tile * kTileRows;
      const uint32_t loaded = row + GroupOf(thread), summed = row + RowOfSum(thread, 0);
      const size_t first = summed < last ? summed : last;
      quants[tile] = x.quants + size_t{loaded < last ? loaded : last} * x.quant_stride;
      scales[tile] = x.scales + first * x.scale_stride;
      sums[tile] = x.sums + first * x.sum_stride;
      second[tile] = summed < last ? 1 : 0;
    }
  }
};

// The lane's part of eight rows, of the tile of which `at` is the first input.
template <typename Type>
OUTRIDER_HD RowFragment RowTile(const int8_t* at, uint32_t thread) {
  if constexpr (Type::kTileStep < kTileInputs) {
    return {{*reinterpret_cast<const uint32_t*>(at + 4 * PlaceOf(thread)), 0}};
  } else if constexpr (Type::kNeighbours) {
    struct alignas(8) Two {
      uint32_t at[2];
    };
    const Two two = *reinterpret_cast<const Two*>(at + 8 * PlaceOf(thread));
    return {{two.at[0], two.at[1]}};
  } else {
    return {{*reinterpret_cast<const uint32_t*>(at + 4 * PlaceOf(thread)),
             *reinterpret_cast<const uint32_t*>(at + 4 * PlaceOf(thread) + kTileInputs / 2)}};
  }
}

// What a strip adds to the sums of a lane, in order: y = Fma(value, factor, y).
template <typename Type, uint32_t kTiles>
struct StripTerms {
  static constexpr uint32_t kOfBlock = Type::kHasMinimum ? 2 : 1;
  struct Term {
    float value[kTiles][4];
    float factor[kTiles][4];
  };
  Term terms[Type::kStrip * kOfBlock];

  OUTRIDER_HD void AddTo(float (&sums)[kTiles][4], const StripPlace& place) const {
    ForBlocks<Type>(place, [&](uint32_t i) {
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kOfBlock; ++j) {
        const Term& term = terms[i * kOfBlock + j];
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          OUTRIDER_UNROLL
          for (uint32_t s = 0; s < 4; ++s) {
            sums[tile][s] = Fma(term.value[tile][s], term.factor[tile][s], sums[tile][s]);
          }
        }
      }
    });
  }
};

// Terms of blocks whose sums are single tiles'.
template <typename Type, uint32_t kTiles>
struct PlainTerms {
  using Terms = StripTerms<Type, kTiles>;
  struct Lane {
    WeightFragment weights;
    RowFragment rows[Type::kStrip][kTiles];
    SumFragment tiles[kTiles];
    float dx[kTiles][2][Type::kStrip];
  };

  template <typename Block, typename Where, typename Strips, typename Rows, typename TermsOf>
  static OUTRIDER_HD void Make(Block& block, const Product& product, const Where& place_of,
                               Strips& strips, Rows& rows, TermsOf& terms) {
    auto lanes = block.template Private<Lane>();
    block.Each([&](uint32_t t) { Load(place_of(t), product.x.scale_stride, t, rows[t], lanes[t]); });
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < Type::kStrip; ++i) {
      block.Each([&](uint32_t t) {
        Type::Prepare(strips[t].blocks[i]);
        lanes[t].weights = Type::Tile(strips[t].blocks[i], 0);
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          OUTRIDER_UNROLL
          for (uint32_t s = 0; s < 4; ++s) lanes[t].tiles[tile].sums[s] = Type::kSumStart;
        }
      });
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        block.MultiplyTiles([&](uint32_t t) {
          return IntTile{&lanes[t].weights, &lanes[t].rows[i][tile], &lanes[t].tiles[tile]};
        });
      }
      block.Each([&](uint32_t t) {
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          OUTRIDER_UNROLL
          for (uint32_t s = 0; s < 4; ++s) {
            terms[t].terms[i].value[tile][s] = Type::Value(lanes[t].tiles[tile].sums[s]);
            terms[t].terms[i].factor[tile][s] =
                WidenHalf(strips[t].blocks[i].halves[0][s / 2]) * lanes[t].dx[tile][s % 2][i];
          }
        }
      });
    }
  }

 private:
  static OUTRIDER_HD void Load(const StripPlace& place, size_t scale_stride, uint32_t thread,
                               const LaneRows<kTiles>& rows, Lane& lane) {
    struct alignas(16) Four {
      float at[4];
    };
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const int8_t* const quants = rows.quants[tile] + size_t{place.first_block} * Type::kBlock;
      ForBlocks<Type>(place, [&](uint32_t i) {
        lane.rows[i][tile] = RowTile<Type>(quants + i * Type::kBlock, thread);
      });
      OUTRIDER_UNROLL
      for (uint32_t r = 0; r < 2; ++r) {
        const float* const scales = rows.scales[tile] + r * rows.second[tile] * scale_stride + place.first_block;
        if (place.block_count == Type::kStrip) {
          static_assert(Type::kStrip == 4);
          const Four four = *reinterpret_cast<const Four*>(scales);
          OUTRIDER_UNROLL
          for (uint32_t i = 0; i < 4; ++i) lane.dx[tile][r][i] = four.at[i];
        } else {
          ForBlocks<Type>(place, [&](uint32_t i) { lane.dx[tile][r][i] = scales[i]; });
        }
      }
    }
  }
};

// Terms of blocks whose tiles' sums are multiplied by integers and added, a block at a time.
template <typename Type, uint32_t kTiles>
struct ScaledTerms {
  using Terms = StripTerms<Type, kTiles>;
  static constexpr uint32_t kSteps = Type::kBlock / Type::kTileStep;
  // Of a row's quants, those of four steps: two sums of 16 each.
  struct alignas(16) RowSums {
    uint32_t pairs[4];
  };
  struct Lane {
    WeightFragment weights;
    RowFragment rows[kTiles];
    SumFragment tiles[kTiles];
    RowSums sums[kTiles][2];
    int32_t products[kTiles][4];
    int32_t minima[kTiles][4];
  };

  template <typename Block, typename Where, typename Strips, typename Rows, typename TermsOf>
  static OUTRIDER_HD void Make(Block& block, const Product& product, const Where& place_of,
                               Strips& strips, Rows& rows, TermsOf& terms) {
    static_assert(Type::kStrip == 1);
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
        const StripPlace place = place_of(t);
        lanes[t].weights = Type::Tile(strips[t].blocks[0], step);
        OUTRIDER_UNROLL
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          lanes[t].tiles[tile] = {};
          if (place.block_count == 0) continue;
          lanes[t].rows[tile] = RowTile<Type>(
              rows[t].quants[tile] + size_t{place.first_block} * Type::kBlock + step * Type::kTileStep,
              t);
        }
      });
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        block.MultiplyTiles([&](uint32_t t) {
          return IntTile{&lanes[t].weights, &lanes[t].rows[tile], &lanes[t].tiles[tile]};
        });
      }
      block.Each([&](uint32_t t) {
        const StripPlace place = place_of(t);
        AddTiles(strips[t].blocks[0], step, lanes[t]);
        if constexpr (Type::kHasMinimum) {
          if (step % 4 == 0 && place.block_count > 0) {
            LoadSums(rows[t], product.x.sum_stride, place.first_block, step, lanes[t]);
          }
          AddMinima(strips[t].blocks[0], step, lanes[t]);
        }
      });
    }
    block.Each([&](uint32_t t) {
      const StripPlace place = place_of(t);
      if (place.block_count == 0) return;
      const LaneBlock<Type>& from = strips[t].blocks[0];
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        const float* const dx = rows[t].scales[tile] + place.first_block;
        OUTRIDER_UNROLL
        for (uint32_t s = 0; s < 4; ++s) {
          const float scale = dx[s % 2 * rows[t].second[tile] * product.x.scale_stride];
          auto& term = terms[t].terms[0];
          term.value[tile][s] = Type::Value(lanes[t].products[tile][s]);
          term.factor[tile][s] = WidenHalf(from.halves[0][s / 2]) * scale;
          if constexpr (Type::kHasMinimum) {
            auto& second = terms[t].terms[1];
            second.value[tile][s] = static_cast<float>(-lanes[t].minima[tile][s]);
            second.factor[tile][s] = WidenHalf(from.halves[1][s / 2]) * scale;
          }
        }
      }
    });
  }

 private:
  static OUTRIDER_HD void AddTiles(const LaneBlock<Type>& from, uint32_t step, Lane& lane) {
    OUTRIDER_UNROLL
    for (uint32_t s = 0; s < 4; ++s) {
      const int32_t scale = Type::Scale(from, s / 2, step);
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        lane.products[tile][s] += scale * lane.tiles[tile].sums[s];
      }
    }
  }

  static OUTRIDER_HD void LoadSums(const LaneRows<kTiles>& rows, size_t sum_stride, uint32_t b,
                                   uint32_t step, Lane& lane) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const int16_t* const at =
          rows.sums[tile] + size_t{b} * (Type::kBlock / 16) + step * (Type::kTileStep / 16);
      lane.sums[tile][0] = *reinterpret_cast<const RowSums*>(at);
      lane.sums[tile][1] = *reinterpret_cast<const RowSums*>(at + rows.second[tile] * sum_stride);
    }
  }

  static OUTRIDER_HD void AddMinima(const LaneBlock<Type>& from, uint32_t step, Lane& lane) {
    OUTRIDER_UNROLL
    for (uint32_t s = 0; s < 4; ++s) {
      const uint32_t scales = Type::MinimumPair(from, s / 2, step);
      OUTRIDER_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        lane.minima[tile][s] =
            AddPairTimes(lane.sums[tile][s % 2].pairs[step % 4], scales, lane.minima[tile][s]);
      }
    }
  }
};

template <typename Type, uint32_t kTiles>
struct TermsMaker : PlainTerms<Type, kTiles> {};
template <typename Type, uint32_t kTiles>
  requires Type::kIsScaled
struct TermsMaker<Type, kTiles> : ScaledTerms<Type, kTiles> {};

template <uint32_t kTiles>
struct LaneSums {
  float of[kTiles][4];

  OUTRIDER_HD void StoreIn(const Product& product, uint32_t first_row, uint32_t panel,
                           uint32_t thread) const {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      OUTRIDER_UNROLL
      for (uint32_t s = 0; s < 4; ++s) {
        product.Store(first_row + tile * kTileRows + RowOfSum(thread, s),
                      panel * kTileOutputs + OutputOfSum(thread, s), of[tile][s]);
      }
    }
  }
};

template <typename Type, uint32_t kTiles>
struct DealtStripsProduct {
  static constexpr uint32_t kWarps = 8;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kRows = kTiles * kTileRows;
  static constexpr uint32_t kRoundBlocks = kWarps * Type::kStrip;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return kTiles * kWarpLanes * sizeof(Sums); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t first_row = block.x() * kRows, panel = block.y();
    const uint32_t block_count = product.inputs / Type::kBlock;
    const auto handed_on = block.template Share<Sums>(kTiles * kWarpLanes);
    auto strips = block.template Private<Strip<Type>>();
    auto rows = block.template Private<LaneRows<kTiles>>();
    auto terms = block.template Private<StripTerms<Type, kTiles>>();
    block.Each([&](uint32_t t) {
      LoadStrip<Type>(product.PanelAt(panel), product.inputs, FirstOf(0, t), t, strips[t]);
      rows[t].Find(product.x, first_row, t);
    });
    for (uint32_t first = 0; first < block_count; first += kRoundBlocks) {
      const auto place_of = [&](uint32_t t) {
        return StripAt<Type>(product.inputs, FirstOf(first, t));
      };
      TermsMaker<Type, kTiles>::Make(block, product, place_of, strips, rows, terms);
      const bool is_last = first + kRoundBlocks >= block_count;
      if (!is_last) {
        block.Each([&](uint32_t t) {
          LoadStrip<Type>(product.PanelAt(panel), product.inputs, FirstOf(first + kRoundBlocks, t),
                          t, strips[t]);
        });
      }
      block.InTurns(first == 0, is_last, [&](uint32_t t) {
        LaneSums<kTiles> sums = {};
        if (first + t / kWarpLanes > 0) Take(handed_on, t, sums);
        terms[t].AddTo(sums.of, place_of(t));
        if (is_last && t / kWarpLanes + 1 == kWarps) {
          sums.StoreIn(product, first_row, panel, t);
        } else {
          HandOn(handed_on, t, sums);
        }
      });
    }
  }

 private:
  struct alignas(16) Sums {
    float of[4];
  };

  static OUTRIDER_HD uint32_t FirstOf(uint32_t first, uint32_t t) {
    return first + t / kWarpLanes * Type::kStrip;
  }

  template <typename Shared>
  static OUTRIDER_HD void Take(const Shared& handed_on, uint32_t t, LaneSums<kTiles>& sums) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const Sums four = handed_on.Get(t, tile * kWarpLanes + LaneOf(t));
      OUTRIDER_UNROLL
      for (uint32_t s = 0; s < 4; ++s) sums.of[tile][s] = four.of[s];
    }
  }

  template <typename Shared>
  static OUTRIDER_HD void HandOn(const Shared& handed_on, uint32_t t,
                                 const LaneSums<kTiles>& sums) {
    OUTRIDER_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      Sums four;
      OUTRIDER_UNROLL
      for (uint32_t s = 0; s < 4; ++s) four.of[s] = sums.of[tile][s];
      handed_on.Set(t, tile * kWarpLanes + LaneOf(t), four);
    }
  }
};

template <typename Type, uint32_t kTiles>
struct OwnRowsQuantProduct {
  static constexpr uint32_t kWarps = 4;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kWarpRows = kTiles * kTileRows;
  static constexpr uint32_t kRows = kWarps * kWarpRows;

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t x = block.x(), panel = block.y();
    const uint32_t block_count = product.inputs / Type::kBlock;
    auto strips = block.template Private<Strip<Type>>();
    auto rows = block.template Private<LaneRows<kTiles>>();
    auto terms = block.template Private<StripTerms<Type, kTiles>>();
    auto sums = block.template Private<LaneSums<kTiles>>();
    block.Each([&](uint32_t t) {
      LoadStrip<Type>(product.PanelAt(panel), product.inputs, 0, t, strips[t]);
      rows[t].Find(product.x, FirstRow(x, t), t);
    });
    for (uint32_t first = 0; first < block_count; first += Type::kStrip) {
      const auto place_of = [&](uint32_t) { return StripAt<Type>(product.inputs, first); };
      TermsMaker<Type, kTiles>::Make(block, product, place_of, strips, rows, terms);
      block.Each([&](uint32_t t) {
        LoadStrip<Type>(product.PanelAt(panel), product.inputs, first + Type::kStrip, t, strips[t]);
        terms[t].AddTo(sums[t].of, place_of(t));
      });
    }
    block.Each([&](uint32_t t) { sums[t].StoreIn(product, FirstRow(x, t), panel, t); });
  }

 private:
  static OUTRIDER_HD uint32_t FirstRow(uint32_t x, uint32_t t) {
    return x * kRows + t / kWarpLanes * kWarpRows;
  }
};

}  // namespace outrider::gpu
