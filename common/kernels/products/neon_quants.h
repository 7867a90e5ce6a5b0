// The integer types on NEON, for whichever instruction does the dots:
//
//   struct Dots {
//     // dots[r] += the products of 4 * kVectors elements: vector t of w has k = 4t..4t+3 of four
//     // outputs, quants[r] points to row r's k = 0.
//     template <int kVectors, int kRows>
//     static void Add(const int8x16_t (&w)[kVectors], const int8_t* const (&quants)[kRows],
//                     int32x4_t (&dots)[kRows]);
//   };
//
// Weights are signed bytes: both instructions multiply signed by signed, so there are no offsets.
//
// Registers, of 32, with four rows: 16 results, 8 weights, 4 dots; activations come from memory.
// Static, as in product_loop.h.
#pragma once

#include "common/kernels/products/neon_lanes.h"

namespace outrider {

// Of a block or super-block, one per row.
template <int kRows>
struct RowBlocks {
  const int8_t* quants[kRows];
  const int16_t* sums[kRows];
  const float* scales;

  // The same rows from element k on.
  inline void Quants(uint32_t k, const int8_t* (&at)[kRows]) const {
    for (int r = 0; r < kRows; ++r) at[r] = quants[r] + k;
  }
};

template <int kRows>
static inline void Clear(int32x4_t (&dots)[kRows]) {
  for (int r = 0; r < kRows; ++r) dots[r] = vdupq_n_s32(0);
}

// y += float(i) * (scale * the row's)
template <int kRows>
static inline void AddScaled(const int32x4_t (&dots)[kRows], float32x4_t scale, const float* scales,
                             int g, float32x4_t (&y)[kRows][kGroups]) {
  for (int r = 0; r < kRows; ++r) {
    y[r][g] = vfmaq_f32(y[r][g], vcvtq_f32_s32(dots[r]), vmulq_n_f32(scale, scales[r]));
  }
}

// Byte i of every lane's dword, as int32.
static inline int32x4_t ByteOf(uint8x16_t bytes, int i) {
  return vreinterpretq_s32_u32(
      vandq_u32(vshlq_u32(vreinterpretq_u32_u8(bytes), vdupq_n_s32(-8 * i)), vdupq_n_u32(255)));
}

static inline int32x4_t SignedByteOf(uint8x16_t bytes, int i) {
  return vshrq_n_s32(vshlq_s32(vreinterpretq_s32_u8(bytes), vdupq_n_s32(24 - 8 * i)), 24);
}

template <typename Dots>
struct Q8_0Neon {
  static constexpr QuantPanel kPanel = kQ8_0Panel;

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int g,
                              const RowBlocks<kRows>& x, float32x4_t (&y)[kRows][kGroups]) {
    int8x16_t w[8];
    for (int t = 0; t < 8; ++t) w[t] = vreinterpretq_s8_u8(LoadLine(lines + t * kLineBytes, g));
    int32x4_t dots[kRows];
    Clear(dots);
    Dots::Add(w, x.quants, dots);
    AddScaled(dots, LoadHalves(halves, g), x.scales, g, y);
  }
};

template <typename Dots>
struct Q4_0Neon {
  static constexpr QuantPanel kPanel = kQ4_0Panel;

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int g,
                              const RowBlocks<kRows>& x, float32x4_t (&y)[kRows][kGroups]) {
    const int8x16_t eight = vdupq_n_s8(8);
    int8x16_t w[8];
    for (int t = 0; t < 4; ++t) {
      const uint8x16_t line = LoadLine(lines + t * kLineBytes, g);
      w[t] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(line, vdupq_n_u8(15))), eight);
      w[t + 4] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(line, 4)), eight);
    }
    int32x4_t dots[kRows];
    Clear(dots);
    Dots::Add(w, x.quants, dots);
    AddScaled(dots, LoadHalves(halves, g), x.scales, g, y);
  }
};

template <typename Dots>
struct Q4_KNeon {
  static constexpr QuantPanel kPanel = kQ4_KPanel;

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int g,
                              const RowBlocks<kRows>& x, float32x4_t (&y)[kRows][kGroups]) {
    const uint8x16_t six = vdupq_n_u8(63);
    const uint8x16_t low = vdupq_n_u8(15);
    const uint8x16_t upper = vdupq_n_u8(48);
    const uint8x16_t a = LoadLine(lines, g);
    const uint8x16_t b = LoadLine(lines + kLineBytes, g);
    const uint8x16_t c = LoadLine(lines + 2 * kLineBytes, g);
    // Eight scales and eight minima of six bits: a_i and b_i have those of sub-block i and, above
    // them, two upper bits of 4 + i; c_i has the four lower bits of both.
    const uint8x16_t scales[2] = {vandq_u8(a, six),
                                  vorrq_u8(vandq_u8(c, low), vandq_u8(vshrq_n_u8(a, 2), upper))};
    const uint8x16_t mins[2] = {vandq_u8(b, six),
                                vorrq_u8(vshrq_n_u8(c, 4), vandq_u8(vshrq_n_u8(b, 2), upper))};
    int32x4_t dots[kRows];
    int32x4_t min_dots[kRows];
    Clear(dots);
    Clear(min_dots);
    for (int j = 0; j < 8; ++j) {
      const std::byte* const nibbles = lines + (kQ4_KScaleLines + 8 * (j / 2)) * kLineBytes;
      const int8x16_t shift = vdupq_n_s8(static_cast<int8_t>(-4 * (j % 2)));
      int8x16_t w[8];
      for (int t = 0; t < 8; ++t) {
        const uint8x16_t line = LoadLine(nibbles + t * kLineBytes, g);
        w[t] = vreinterpretq_s8_u8(vandq_u8(vshlq_u8(line, shift), low));
      }
      const int32x4_t scale = ByteOf(scales[j / 4], j % 4);
      const int32x4_t min = ByteOf(mins[j / 4], j % 4);
      const int8_t* quants[kRows];
      x.Quants(32 * j, quants);
      int32x4_t dot[kRows];
      Clear(dot);
      Dots::Add(w, quants, dot);
      for (int r = 0; r < kRows; ++r) {
        dots[r] = vmlaq_s32(dots[r], dot[r], scale);
        // Subtracted: it is -k that is scaled.
        min_dots[r] = vmlsq_n_s32(min_dots[r], min, x.sums[r][2 * j] + x.sums[r][2 * j + 1]);
      }
    }
    AddScaled(dots, LoadHalves(halves, g), x.scales, g, y);
    AddScaled(min_dots, LoadHalves(halves + kHalvesBytes, g), x.scales, g, y);
  }
};

template <typename Dots>
struct Q6_KNeon {
  static constexpr QuantPanel kPanel = kQ6_KPanel;

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int g,
                              const RowBlocks<kRows>& x, float32x4_t (&y)[kRows][kGroups]) {
    const uint8x16_t low = vdupq_n_u8(15);
    const uint8x16_t two = vdupq_n_u8(3);
    const int8x16_t middle = vdupq_n_s8(32);
    int32x4_t dots[kRows];
    Clear(dots);
    for (int j = 0; j < 16; ++j) {  // sub-blocks of 16: four lines each
      const int half = j / 8;
      const int quarter = j % 8 / 2;
      const int first = 4 * (j % 2);
      const std::byte* const nibbles = lines + (16 * half + 8 * (quarter % 2) + first) * kLineBytes;
      const std::byte* const bits = lines + (kQ6_KUpperLine + 8 * half + first) * kLineBytes;
      const int8x16_t nibble_shift = vdupq_n_s8(static_cast<int8_t>(-4 * (quarter / 2)));
      const int8x16_t bit_shift = vdupq_n_s8(static_cast<int8_t>(-2 * quarter));
      int8x16_t w[4];
      for (int t = 0; t < 4; ++t) {
        const uint8x16_t nibble =
            vandq_u8(vshlq_u8(LoadLine(nibbles + t * kLineBytes, g), nibble_shift), low);
        const uint8x16_t pair =
            vandq_u8(vshlq_u8(LoadLine(bits + t * kLineBytes, g), bit_shift), two);
        w[t] = vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(nibble, vshlq_n_u8(pair, 4))), middle);
      }
      const uint8x16_t four = LoadLine(lines + (kQ6_KScaleLine + j / 4) * kLineBytes, g);
      const int32x4_t scale = SignedByteOf(four, j % 4);
      const int8_t* quants[kRows];
      x.Quants(16 * j, quants);
      int32x4_t dot[kRows];
      Clear(dot);
      Dots::Add(w, quants, dot);
      for (int r = 0; r < kRows; ++r) dots[r] = vmlaq_s32(dots[r], dot[r], scale);
    }
    AddScaled(dots, LoadHalves(halves, g), x.scales, g, y);
  }
};

template <typename Type>
struct NeonKernel {
  static constexpr uint32_t kRowsMax = 4;
  static constexpr uint32_t kPairRowsMax = 0;
  static constexpr QuantPanel kPanel = Type::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;
  static constexpr uint32_t kFetchBlocks =
      kBlockBytes < kFetchAhead ? kFetchAhead / kBlockBytes : 1;

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    const std::byte* halves = tile.panels + HalvesOffset(kPanel, tile.x.inputs);
    float32x4_t y[kRows][kGroups];
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) y[r][g] = vdupq_n_f32(0);
    }
    for (uint32_t b = 0; b < block_count; ++b) {
      const std::byte* const lines = tile.panels + b * kBlockBytes;
      FetchLines<kPanel.lines>(b + kFetchBlocks < block_count
                                   ? lines + kFetchBlocks * kBlockBytes
                                   : tile.next_panels +
                                         (b + kFetchBlocks - block_count) * kBlockBytes);
      RowBlocks<kRows> x;
      x.scales = tile.x.scales + b * tile.x.scale_stride;
      for (int r = 0; r < kRows; ++r) {
        x.quants[r] = tile.x.quants + r * tile.x.quant_stride + size_t{b} * kPanel.block;
        x.sums[r] = tile.x.sums + r * tile.x.sum_stride + size_t{b} * (kPanel.block / 16);
      }
      for (int g = 0; g < kGroups; ++g) Type::AddBlock(lines, halves, g, x, y);
      halves += kPanel.halves * kHalvesBytes;
    }
    StoreResults(y, tile);
  }
};

template <typename Type>
static void MultiplyNeon(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                         const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<NeonKernel<Type>>(PanelSize(Type::kPanel, x.inputs), panels, panel_count,
                                  output_count, x, out, out_stride);
}

}  // namespace outrider
