// The types in blocks of 32 with AMX, and the table.
//
// A tile multiplication takes 16 rows of 32 activations and a block of 32 x 16 weights to 16 x 16
// integers; vectors then scale those and add them to the results. Tiles speak to vectors through
// memory only, and a tile that is loaded waits until what was stored there has left the store
// buffer. So three stages run at a distance: weights of block b + 4 are unpacked, the tiles of b +
// 2 multiplied and the integers of b scaled. (One block apart, Q4_0 with 16 rows took 42 ns a
// block; so it takes 26, and 4 and 6 apart is no faster.)
//
// Tried: starting tiles from the bits of 1.5 * 2^23, so that a subtraction turns them into floats
// instead of a conversion, which competes with the tiles for a port. Loading that constant costs
// more than it saves: 28 ns.
//
// Registers, of 32: results 16, and 16 for scales and integers on their way.
#include "common/kernels/products/products_amx.h"
#include "common/kernels/products/amx_loop.h"
#include "common/kernels/products/amx_tiles.h"
#include "common/kernels/products/avx512_block_lanes.h"
#include "common/kernels/products/product_tables.h"
#include "common/kernels/products/products_avx512.h"

namespace outrider {
namespace {

// Weights are tiles as they lie in the panel.
struct Q8_0Tiles {
  using Lines = Q8_0Lines;
  static constexpr PanelProduct* ProductKernels::*kFewRows = &ProductKernels::q8_0;
  static constexpr bool kUnpacks = false;

  static inline void Unpack(const std::byte*, std::byte*) {}
};

// Bytes that are the offset above what they stand for.
template <typename LinesOfType, PanelProduct* ProductKernels::*kFewRowsOfType>
struct OffsetTiles {
  using Lines = LinesOfType;
  static constexpr PanelProduct* ProductKernels::*kFewRows = kFewRowsOfType;
  static constexpr bool kUnpacks = true;

  static inline void Unpack(const std::byte* lines, std::byte* tile) {
    const __m512i offset = _mm512_set1_epi8(Lines::kOffset);
#pragma GCC unroll 8  // so that the shifts are constants
    for (int t = 0; t < 8; ++t) {
      const __m512i bytes = Lines::Load(lines, t);
      _mm512_store_si512(tile + t * kLineBytes, _mm512_sub_epi8(bytes, offset));
    }
  }
};

using Q4_1Tiles = OffsetTiles<Q4_1Lines, &ProductKernels::q4_1>;
using Q5_0Tiles = OffsetTiles<Q5_0Lines, &ProductKernels::q5_0>;
using Q5_1Tiles = OffsetTiles<Q5_1Lines, &ProductKernels::q5_1>;
using IQ4_NLTiles = OffsetTiles<ValueLines<kIQ4_NLPanel, kIq4Values, 0>, &ProductKernels::iq4_nl>;
using MXFP4Tiles = OffsetTiles<ValueLines<kMXFP4Panel, kMxfp4Values, 0>, &ProductKernels::mxfp4>;

// A nibble q becomes the byte q - 8 in one instruction: q - 8 has the lowest three bits of q, and
// the complement of its fourth in all others.
struct Q4_0Tiles {
  using Lines = Q4_0Lines;
  static constexpr PanelProduct* ProductKernels::*kFewRows = &ProductKernels::q4_0;
  static constexpr bool kUnpacks = true;

  static inline void Unpack(const std::byte* lines, std::byte* tile) {
    // Byte 7 - i of a matrix selects the bits whose sum is bit i.
    const __m512i low = _mm512_set1_epi64(0x0102040808080808);
    const __m512i high = _mm512_set1_epi64(0x1020408080808080);
    for (int t = 0; t < 4; ++t) {
      const __m512i line = LoadLine(lines + t * kLineBytes);
      _mm512_store_si512(tile + t * kLineBytes, _mm512_gf2p8affine_epi64_epi8(line, low, 0xf8));
      _mm512_store_si512(tile + (t + 4) * kLineBytes,
                         _mm512_gf2p8affine_epi64_epi8(line, high, 0xf8));
    }
  }
};

// What the tiles of one panel read and write in memory: rings over blocks.
constexpr uint32_t kRing = 8;
constexpr uint32_t kUnpackAhead = 4;
constexpr uint32_t kMultiplyAhead = 2;

template <int kRows>
struct TileMemory {
  alignas(64) std::byte weights[kRing][8 * kLineBytes];
  alignas(64) int32_t dots[kRing][kRows][16];
};

template <typename Type>
struct TileKernel {
  static constexpr QuantPanel kPanel = Type::Lines::kPanel;
  static constexpr PanelProduct* ProductKernels::*kFewRows = Type::kFewRows;
  static constexpr uint32_t kRowsMax = 16;
  static constexpr uint32_t kRowsLeftMin = 6;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;
  static constexpr uint32_t kFetchBlocks = kFetchAhead / kBlockBytes;

  // Tile registers, the second of each pair for odd blocks.
  static constexpr int kA = 0;  // activations, rows x 32
  static constexpr int kB = 2;  // weights, 8 x 64
  static constexpr int kC = 4;  // integers, rows x 16

  static TileConfig Config(uint32_t rows) {
    TileConfig config;
    for (int odd = 0; odd < 2; ++odd) {
      SetTile(config, kA + odd, rows, 32);
      SetTile(config, kB + odd, 8, 64);
      SetTile(config, kC + odd, rows, 64);
    }
    return config;
  }

  // Inlined whatever the compiler thinks of its size: around a call all results would go to memory and back.
  template <int kRows>
  [[gnu::always_inline]] static void UnpackBlock(const ProductTile& tile, uint32_t b,
                                                 TileMemory<kRows>& memory) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    if (b >= block_count) return;
    const std::byte* const lines = tile.panels + b * kBlockBytes;
    FetchLines<kPanel.lines>(b + kFetchBlocks < block_count
                                 ? lines + kFetchAhead
                                 : tile.next_panels +
                                       (b + kFetchBlocks - block_count) * kBlockBytes);
    FetchLinesFar<kPanel.lines>(lines + kFarAhead);
    Type::Unpack(lines, memory.weights[b % kRing]);
  }

  // The integers of block b into memory.
  template <int kOdd, int kRows>
  static inline void MultiplyBlock(const ProductTile& tile, uint32_t b, TileMemory<kRows>& memory) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    if (b >= block_count) return;
    LoadTile<kA + kOdd>(tile.x.quants + size_t{b} * 32, tile.x.quant_stride);
    ZeroTile<kC + kOdd>();
    LoadTile<kB + kOdd>(Type::kUnpacks ? memory.weights[b % kRing] : tile.panels + b * kBlockBytes,
                        kLineBytes);
    MultiplySignedSigned<kC + kOdd, kA + kOdd, kB + kOdd>();
    StoreTile<kC + kOdd>(memory.dots[b % kRing], kLineBytes);
  }

  // From there into the results.
  template <int kRows>
  static inline void ScaleBlock(const ProductTile& tile, uint32_t b,
                                const TileMemory<kRows>& memory, __m512 (&y)[kRows]) {
    const float* const row_scales = tile.x.scales + b * tile.x.scale_stride;
    const std::byte* const halves = tile.panels + HalvesOffset(kPanel, tile.x.inputs) +
                                    size_t{b} * (kPanel.halves * kHalvesBytes);
    const __m512 scale = LoadScale<typename Type::Lines>(halves);
    for (int r = 0; r < kRows; ++r) {
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(memory.dots[b % kRing][r]));
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(row_scales[r]));
      y[r] = _mm512_fmadd_ps(dot, both, y[r]);
      if constexpr (kPanel.halves == 2) {
        const __m512i sum = _mm512_dpwssd_epi32(
            _mm512_setzero_si512(), _mm512_set1_epi16(1),
            BroadcastDword(tile.x.sums + r * tile.x.sum_stride + size_t{b} * 2));
        const __m512 minimum =
            _mm512_mul_ps(LoadHalves(halves + kHalvesBytes), _mm512_set1_ps(row_scales[r]));
        y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), minimum, y[r]);
      }
    }
  }

  template <int kRows>
  static void Run(const ProductTile& tile_in_memory) {
    const ProductTile tile = tile_in_memory;  // in registers
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    TileMemory<kRows> memory;
    __m512 y[1][kRows] = {};  // set in a loop, half of them move from register to register
    for (uint32_t b = 0; b < kUnpackAhead; ++b) UnpackBlock(tile, b, memory);
    MultiplyBlock<0>(tile, 0, memory);
    MultiplyBlock<1>(tile, 1, memory);
    for (uint32_t b = 0; b < block_count; b += 2) {
      UnpackBlock(tile, b + kUnpackAhead, memory);
      MultiplyBlock<0>(tile, b + kMultiplyAhead, memory);
      ScaleBlock(tile, b, memory, y[0]);
      if (b + 1 == block_count) break;
      UnpackBlock(tile, b + 1 + kUnpackAhead, memory);
      MultiplyBlock<1>(tile, b + 1 + kMultiplyAhead, memory);
      ScaleBlock(tile, b + 1, memory, y[0]);
    }
    StoreResults(y, tile);
  }

  static void RunRows(const ProductTile& tile) {
    switch (tile.x.row_count) {
#define OUTRIDER_ROWS(rows) \
  case rows:                \
    return Run<rows>(tile)
      OUTRIDER_ROWS(6);
      OUTRIDER_ROWS(7);
      OUTRIDER_ROWS(8);
      OUTRIDER_ROWS(9);
      OUTRIDER_ROWS(10);
      OUTRIDER_ROWS(11);
      OUTRIDER_ROWS(12);
      OUTRIDER_ROWS(13);
      OUTRIDER_ROWS(14);
      OUTRIDER_ROWS(15);
      OUTRIDER_ROWS(16);
#undef OUTRIDER_ROWS
      default:
        break;
    }
  }
};

template <typename Type>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyByTiles<TileKernel<Type>>(panels, panel_count, output_count, x, out, out_stride);
}

}  // namespace

const ProductKernels kAmxProducts = {
    .f32 = avx512::MultiplyF32,
    .f16 = avx512::MultiplyF16,
    .bf16 = avx512::MultiplyBF16,
    .q8_0 = Multiply<Q8_0Tiles>,
    .q4_0 = Multiply<Q4_0Tiles>,
    .q4_1 = Multiply<Q4_1Tiles>,
    .q5_0 = Multiply<Q5_0Tiles>,
    .q5_1 = Multiply<Q5_1Tiles>,
    .iq4_nl = Multiply<IQ4_NLTiles>,
    .mxfp4 = Multiply<MXFP4Tiles>,
    .q4_k = amx::MultiplyQ4_K,
    .q5_k = amx::MultiplyQ5_K,
    .q6_k = amx::MultiplyQ6_K,
    .q2_k = amx::MultiplyQ2_K,
    .q3_k = amx::MultiplyQ3_K,
    .iq4_xs = amx::MultiplyIQ4_XS,
};

}  // namespace outrider
