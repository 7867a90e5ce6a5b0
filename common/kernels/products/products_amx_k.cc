// Q4_K and Q6_K with AMX.
//
// The integer scale of a sub-block is multiplied into its weights, so that a whole super-block of
// 256 is one sum and is scaled as floats once. The products need more than a byte and are split
// over two planes, each multiplied as a tile of its own:
//
//   Q4_K   scale = 8 * upper + lower, three bits each: planes upper * q and lower * q, <= 7 * 15.
//          A 16-bit multiplication makes two of them at once, as no product leaves its byte.
//          i = 8 * (sum over the upper plane) + (sum over the lower)
//   Q6_K   scale * q, q in 0..63, is 16 bits: its upper byte, signed, and its lower, unsigned.
//          i = 256 * (sum over the upper plane) + (sum over the lower) - 32 * sum of scale * sum(x)
//
// Unpacking costs 4 to 9 vector instructions for 64 weights, whatever the rows; up to 32 rows share
// it. As in products_amx.cc the stages keep a distance: a super-block is unpacked while the one
// before is multiplied and the one before that is scaled.
#include "common/kernels/products/amx_tiles.h"
#include "common/kernels/products/avx512_k_lanes.h"
#include "common/kernels/products/product_tables.h"
#include "common/kernels/products/products_amx.h"

namespace outrider {
namespace {

constexpr uint32_t kRowsMax = 32;  // two tiles of activations
// Below, VNNI is faster (8 rows of Q4_K from memory: 66 ms to 75).
constexpr uint32_t kAmxRowsMin = 9;
constexpr uint32_t kTileRows = 16;
constexpr size_t kPlaneBytes = 64 * kLineBytes;  // a byte for each weight of a super-block

// Tile registers.
constexpr int kUpper = 0;  // integers of the first 16 rows and, at + 2, of the next
constexpr int kLower = 1;
constexpr int kA = 4;  // activations: rows x 64
constexpr int kB = 6;  // weights: 16 x 64, upper and lower plane

// What one super-block leaves in memory on its way.
struct Planes {
  alignas(64) std::byte upper[kPlaneBytes];
  alignas(64) std::byte lower[kPlaneBytes];
};

struct Dots {
  alignas(64) int32_t upper[kRowsMax][16];
  alignas(64) int32_t lower[kRowsMax][16];
};

struct Q4_K {
  static constexpr QuantPanel kPanel = kQ4_KPanel;
  static constexpr PanelProduct* ProductKernels::*kFewRows = &ProductKernels::q4_k;
  static constexpr bool kLowerIsSigned = true;

  template <int j>
  static inline void UnpackSubBlock(const std::byte* lines, const std::byte* ahead,
                                    const Q4_KScales& packed, Planes& planes) {
    const __m512i three = _mm512_set1_epi8(7);
    const __m512i scales = j < 4 ? packed.scales_low : packed.scales_high;
    const __m512i lower = TwiceByte(_mm512_and_si512(scales, three), j % 4);
    const __m512i upper = TwiceByte(_mm512_and_si512(_mm512_srli_epi16(scales, 3), three), j % 4);
    __m512i q[8];
    FetchEighth<kPanel, j>(ahead);
    FetchEighthFar<kPanel, j>(lines);
    LoadQ4_KNibbles<j>(lines, q);
    for (int t = 0; t < 8; ++t) {
      const size_t at = (8 * j + t) * kLineBytes;
      _mm512_store_si512(planes.upper + at, _mm512_mullo_epi16(q[t], upper));
      _mm512_store_si512(planes.lower + at, _mm512_mullo_epi16(q[t], lower));
    }
  }

  static inline void Unpack(const std::byte* lines, const std::byte* ahead, Planes& planes) {
    const Q4_KScales packed = LoadQ4_KScales(lines);
    UnpackSubBlock<0>(lines, ahead, packed, planes);
    UnpackSubBlock<1>(lines, ahead, packed, planes);
    UnpackSubBlock<2>(lines, ahead, packed, planes);
    UnpackSubBlock<3>(lines, ahead, packed, planes);
    UnpackSubBlock<4>(lines, ahead, packed, planes);
    UnpackSubBlock<5>(lines, ahead, packed, planes);
    UnpackSubBlock<6>(lines, ahead, packed, planes);
    UnpackSubBlock<7>(lines, ahead, packed, planes);
  }

  // Adds super-block b to the results of every row, which lie in `y`.
  static inline void Scale(const ActivationRows& x, uint32_t b, const std::byte* lines,
                           const std::byte* halves, const Dots& dots, float (*y)[16]) {
    const Q4_KScales packed = LoadQ4_KScales(lines);
    // Two neighbouring minima, negative and as int16.
    const __m512i zero = _mm512_setzero_si512();
    const __m512i low_pair = _mm512_set4_epi32(0x800d800c, 0x80098008, 0x80058004, 0x80018000);
    const __m512i high_pair = _mm512_set4_epi32(0x800f800e, 0x800b800a, 0x80078006, 0x80038002);
    const __m512i mins[4] = {
        _mm512_sub_epi16(zero, _mm512_shuffle_epi8(packed.mins_low, low_pair)),
        _mm512_sub_epi16(zero, _mm512_shuffle_epi8(packed.mins_low, high_pair)),
        _mm512_sub_epi16(zero, _mm512_shuffle_epi8(packed.mins_high, low_pair)),
        _mm512_sub_epi16(zero, _mm512_shuffle_epi8(packed.mins_high, high_pair))};
    const __m512 d = LoadHalves(halves);
    const __m512 dmin = LoadHalves(halves + kHalvesBytes);
    const int16_t* const sums = x.sums + size_t{b} * 16;
    const float* const scales = x.scales + b * x.scale_stride;
    for (uint32_t r = 0; r < x.row_count; ++r) {
      // Sums of 16 activations to sums of 32, in order: at most 4064.
      const int16_t* const row_sums = sums + r * x.sum_stride;
      const __m128i of32 =
          _mm_hadd_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row_sums)),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(row_sums + 8)));
      const __m512i pairs = _mm512_broadcast_i32x4(of32);
      __m512i min = _mm512_dpwssd_epi32(zero, mins[0], _mm512_shuffle_epi32(pairs, _MM_PERM_AAAA));
      min = _mm512_dpwssd_epi32(min, mins[1], _mm512_shuffle_epi32(pairs, _MM_PERM_BBBB));
      min = _mm512_dpwssd_epi32(min, mins[2], _mm512_shuffle_epi32(pairs, _MM_PERM_CCCC));
      min = _mm512_dpwssd_epi32(min, mins[3], _mm512_shuffle_epi32(pairs, _MM_PERM_DDDD));
      const __m512i dot = _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512(dots.upper[r]), 3),
                                           _mm512_load_si512(dots.lower[r]));
      const __m512 row_scale = _mm512_set1_ps(scales[r]);
      __m512 sum = _mm512_load_ps(y[r]);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, row_scale), sum);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(min), _mm512_mul_ps(dmin, row_scale), sum);
      _mm512_store_ps(y[r], sum);
    }
  }
};

struct Q6_K {
  static constexpr QuantPanel kPanel = kQ6_KPanel;
  static constexpr PanelProduct* ProductKernels::*kFewRows = &ProductKernels::q6_k;
  static constexpr bool kLowerIsSigned = false;

  // Elements 32j..32j+31: sub-blocks 2j and 2j + 1.
  template <int j>
  static inline void UnpackTwoSubBlocks(const std::byte* lines, const std::byte* ahead,
                                        Planes& planes) {
    const __m512i scales = LoadLine(lines + (kQ6_KScaleLine + j / 2) * kLineBytes);
    // The scale as every other byte, the rest zero, so that vpmaddubsw multiplies either the even
    // or the odd quants: |63 * -128| = 8064.
    const __m512i even_bytes = _mm512_set1_epi16(0x00ff);
    const __m512i spread = _mm512_add_epi8(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                                           _mm512_set1_epi8(2 * (j % 2)));
    __m512i q[8];
    FetchEighth<kPanel, j>(ahead);
    FetchEighthFar<kPanel, j>(lines);
    LoadQ6_KQuants<j>(lines, q);
    for (int half = 0; half < 2; ++half) {
      const __m512i scale =
          _mm512_shuffle_epi8(scales, _mm512_add_epi8(spread, _mm512_set1_epi8(half)));
      const __m512i even_scale = _mm512_and_si512(scale, even_bytes);
      const __m512i odd_scale = _mm512_andnot_si512(even_bytes, scale);
      for (int t = 4 * half; t < 4 * half + 4; ++t) {
        // Products of 16 bits, of the even quants and of the odd. Their upper bytes go to one plane
        // and their lower bytes to the other, each to the place of its quant.
        const __m512i even = _mm512_maddubs_epi16(q[t], even_scale);
        const __m512i odd = _mm512_maddubs_epi16(q[t], odd_scale);
        constexpr int kSelect = 0xca;  // even_bytes ? second : third
        const size_t at = (8 * j + t) * kLineBytes;
        _mm512_store_si512(
            planes.upper + at,
            _mm512_ternarylogic_epi32(even_bytes, _mm512_srli_epi16(even, 8), odd, kSelect));
        _mm512_store_si512(
            planes.lower + at,
            _mm512_ternarylogic_epi32(even_bytes, even, _mm512_slli_epi16(odd, 8), kSelect));
      }
    }
  }

  static inline void Unpack(const std::byte* lines, const std::byte* ahead, Planes& planes) {
    UnpackTwoSubBlocks<0>(lines, ahead, planes);
    UnpackTwoSubBlocks<1>(lines, ahead, planes);
    UnpackTwoSubBlocks<2>(lines, ahead, planes);
    UnpackTwoSubBlocks<3>(lines, ahead, planes);
    UnpackTwoSubBlocks<4>(lines, ahead, planes);
    UnpackTwoSubBlocks<5>(lines, ahead, planes);
    UnpackTwoSubBlocks<6>(lines, ahead, planes);
    UnpackTwoSubBlocks<7>(lines, ahead, planes);
  }

  static inline void Scale(const ActivationRows& x, uint32_t b, const std::byte* lines,
                           const std::byte* halves, const Dots& dots, float (*y)[16]) {
    // Scales of two neighbouring sub-blocks as int16.
    __m512i scale_pairs[8];
    const __m512i low_pair = _mm512_set4_epi32(0x0d800c80, 0x09800880, 0x05800480, 0x01800080);
    const __m512i high_pair = _mm512_set4_epi32(0x0f800e80, 0x0b800a80, 0x07800680, 0x03800280);
    for (int t = 0; t < 4; ++t) {
      const __m512i four = LoadLine(lines + (kQ6_KScaleLine + t) * kLineBytes);
      scale_pairs[2 * t] = _mm512_srai_epi16(_mm512_shuffle_epi8(four, low_pair), 8);
      scale_pairs[2 * t + 1] = _mm512_srai_epi16(_mm512_shuffle_epi8(four, high_pair), 8);
    }
    const __m512 d = LoadHalves(halves);
    const int16_t* const sums = x.sums + size_t{b} * 16;
    const float* const scales = x.scales + b * x.scale_stride;
    for (uint32_t r = 0; r < x.row_count; ++r) {
      const int16_t* const row_sums = sums + r * x.sum_stride;
      __m512i offset = _mm512_setzero_si512();
      for (int t = 0; t < 8; ++t) {
        offset = _mm512_dpwssd_epi32(offset, scale_pairs[t], BroadcastDword(row_sums + 2 * t));
      }
      const __m512i products = _mm512_add_epi32(
          _mm512_slli_epi32(_mm512_load_si512(dots.upper[r]), 8), _mm512_load_si512(dots.lower[r]));
      const __m512i dot = _mm512_sub_epi32(products, _mm512_slli_epi32(offset, 5));
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(scales[r]));
      _mm512_store_ps(y[r], _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, _mm512_load_ps(y[r])));
    }
  }
};

template <typename Type>
struct SuperBlockTiles {
  static constexpr QuantPanel kPanel = Type::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;

  static TileConfig Config(uint32_t rows) {
    TileConfig config;
    for (int group = 0; group < 2; ++group) {
      const uint32_t first = group * kTileRows;
      const uint32_t of_group = rows <= first              ? 1
                                : rows - first < kTileRows ? rows - first
                                                           : kTileRows;
      SetTile(config, kUpper + 2 * group, of_group, 64);
      SetTile(config, kLower + 2 * group, of_group, 64);
      SetTile(config, kA + group, of_group, 64);
      SetTile(config, kB + group, 16, 64);
    }
    return config;
  }

  template <int kGroup>
  static inline void MultiplyGroup(const ActivationRows& x, uint32_t b, int p) {
    LoadTile<kA + kGroup>(x.quants + kGroup * kTileRows * x.quant_stride + size_t{b} * 256 + 64 * p,
                          x.quant_stride);
    MultiplySignedSigned<kUpper + 2 * kGroup, kA + kGroup, kB>();
    if constexpr (Type::kLowerIsSigned) {
      MultiplySignedSigned<kLower + 2 * kGroup, kA + kGroup, kB + 1>();
    } else {
      MultiplySignedUnsigned<kLower + 2 * kGroup, kA + kGroup, kB + 1>();
    }
  }

  template <int kGroups>
  static inline void MultiplyBlock(const ActivationRows& x, uint32_t b, const Planes& planes,
                                   Dots& dots) {
    ZeroTile<kUpper>();
    ZeroTile<kLower>();
    if constexpr (kGroups == 2) {
      ZeroTile<kUpper + 2>();
      ZeroTile<kLower + 2>();
    }
    for (int p = 0; p < 4; ++p) {
      LoadTile<kB>(planes.upper + p * 16 * kLineBytes, kLineBytes);
      LoadTile<kB + 1>(planes.lower + p * 16 * kLineBytes, kLineBytes);
      MultiplyGroup<0>(x, b, p);
      if constexpr (kGroups == 2) MultiplyGroup<1>(x, b, p);
    }
    StoreTile<kUpper>(dots.upper, kLineBytes);
    StoreTile<kLower>(dots.lower, kLineBytes);
    if constexpr (kGroups == 2) {
      StoreTile<kUpper + 2>(dots.upper[kTileRows], kLineBytes);
      StoreTile<kLower + 2>(dots.lower[kTileRows], kLineBytes);
    }
  }

  template <int kGroups>
  static void Run(const ProductTile& tile) {
    const ActivationRows x = tile.x;
    const uint32_t block_count = x.inputs / kPanel.block;
    const std::byte* const halves = tile.panels + HalvesOffset(kPanel, x.inputs);
    Planes planes[2];
    Dots dots[2];
    alignas(64) float y[kRowsMax][16];
    for (uint32_t r = 0; r < x.row_count; ++r) _mm512_store_ps(y[r], _mm512_setzero_ps());
    for (uint32_t step = 0; step < block_count + 2; ++step) {
      if (step < block_count) {
        const std::byte* const lines = tile.panels + step * kBlockBytes;
        const std::byte* const ahead =
            step + 1 < block_count ? lines + kBlockBytes : tile.next_panels;
        Fetch(halves + size_t{step + 4} * (kPanel.halves * kHalvesBytes));
        Type::Unpack(lines, ahead, planes[step % 2]);
      }
      if (step >= 1 && step - 1 < block_count) {
        MultiplyBlock<kGroups>(x, step - 1, planes[(step - 1) % 2], dots[(step - 1) % 2]);
      }
      if (step >= 2) {
        const uint32_t b = step - 2;
        Type::Scale(x, b, tile.panels + b * kBlockBytes,
                    halves + size_t{b} * (kPanel.halves * kHalvesBytes), dots[b % 2], y);
      }
    }
    const __mmask16 mask = _cvtu32_mask16((1u << tile.output_count) - 1);
    for (uint32_t r = 0; r < x.row_count; ++r) {
      _mm512_mask_storeu_ps(tile.out + r * tile.out_stride, mask, _mm512_load_ps(y[r]));
    }
  }
};

template <typename Type>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  PanelProduct* const few_rows = kAvx512Products.*Type::kFewRows;
  if (x.row_count < kAmxRowsMin) {
    return few_rows(panels, panel_count, output_count, x, out, out_stride);
  }
  const size_t panel_size = PanelSize(Type::kPanel, x.inputs);
  uint32_t configured_rows = 0;
  for (uint32_t p = 0; p < panel_count; ++p) {
    const uint32_t next = p + 1 < panel_count ? p + 1 : p;
    const uint32_t outputs_left = output_count - p * kPanelOutputs;
    for (uint32_t r = 0; r < x.row_count; r += kRowsMax) {
      const uint32_t rows_left = x.row_count - r;
      const ProductTile tile = {
          .panels = panels + p * panel_size,
          .panel_size = panel_size,
          .next_panels = panels + next * panel_size,
          .x = SomeRows(x, r, rows_left < kRowsMax ? rows_left : kRowsMax),
          .out = out + r * out_stride + size_t{p} * kPanelOutputs,
          .out_stride = out_stride,
          .output_count = outputs_left < kPanelOutputs ? outputs_left : kPanelOutputs};
      if (tile.x.row_count < kAmxRowsMin) {
        few_rows(tile.panels, 1, tile.output_count, tile.x, tile.out, out_stride);
        continue;
      }
      if (tile.x.row_count != configured_rows) {
        configured_rows = tile.x.row_count;
        LoadConfig(SuperBlockTiles<Type>::Config(configured_rows));
      }
      if (configured_rows > kTileRows) {
        SuperBlockTiles<Type>::template Run<2>(tile);
      } else {
        SuperBlockTiles<Type>::template Run<1>(tile);
      }
    }
  }
  ReleaseTiles();
}

}  // namespace

namespace amx {

void MultiplyQ4_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  Multiply<Q4_K>(panels, panel_count, output_count, x, out, out_stride);
}

void MultiplyQ6_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  Multiply<Q6_K>(panels, panel_count, output_count, x, out, out_stride);
}

}  // namespace amx
}  // namespace outrider
