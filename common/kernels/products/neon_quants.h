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

#include "common/formats/tensors/nibble_values.h"
#include "common/kernels/products/neon_lanes.h"
#include "common/kernels/products/products_neon.h"

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

// Signed byte i of every lane's dword, as int32.
static inline int32x4_t ByteOf(uint8x16_t bytes, int i) {
  return vshrq_n_s32(vshlq_s32(vreinterpretq_s32_u8(bytes), vdupq_n_s32(24 - 8 * i)), 24);
}

// Bits of each byte moved down by `count`, or up where that is negative.
static inline uint8x16_t MoveDown(uint8x16_t bytes, int count) {
  return vshlq_u8(bytes, vdupq_n_s8(static_cast<int8_t>(-count)));
}

static inline int8x16_t Minus(uint8x16_t bytes, int8_t offset) {
  return vsubq_s8(vreinterpretq_s8_u8(bytes), vdupq_n_s8(offset));
}

// Vector t of a block of 32 whose nibbles begin at `nibbles`.
static inline uint8x16_t NibblesOf(const std::byte* nibbles, int t, int g) {
  const uint8x16_t line = LoadLine(nibbles + t % 4 * kLineBytes, g);
  return t < 4 ? vandq_u8(line, vdupq_n_u8(15)) : vshrq_n_u8(line, 4);
}

// Types in blocks of 32: Load() gives vector t, what the bytes stand for.
struct Q8_0Neon {
  static constexpr QuantPanel kPanel = kQ8_0Panel;

  static inline int8x16_t Load(const std::byte* lines, int t, int g) {
    return vreinterpretq_s8_u8(LoadLine(lines + t * kLineBytes, g));
  }
};

template <const QuantPanel& kShape, int8_t kOffset>
struct FourBitsNeon {
  static constexpr QuantPanel kPanel = kShape;

  static inline int8x16_t Load(const std::byte* lines, int t, int g) {
    return Minus(NibblesOf(lines, t, g), kOffset);
  }
};

// The fifth bits of vector t are bit t of the bytes of the first line.
template <const QuantPanel& kShape, int8_t kOffset>
struct FiveBitsNeon {
  static constexpr QuantPanel kPanel = kShape;

  static inline int8x16_t Load(const std::byte* lines, int t, int g) {
    const uint8x16_t fifth = vandq_u8(MoveDown(LoadLine(lines, g), t - 4), vdupq_n_u8(16));
    return Minus(vorrq_u8(NibblesOf(lines + kQ5_0NibbleLine * kLineBytes, t, g), fifth), kOffset);
  }
};

template <const QuantPanel& kShape, const int8_t (&kValues)[16]>
struct ValuesNeon {
  static constexpr QuantPanel kPanel = kShape;

  static inline int8x16_t Load(const std::byte* lines, int t, int g) {
    return vqtbl1q_s8(vld1q_s8(kValues), NibblesOf(lines, t, g));
  }
};

template <typename Lines, typename Dots>
struct BlockNeon {
  static constexpr QuantPanel kPanel = Lines::kPanel;

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int g,
                              const RowBlocks<kRows>& x, float32x4_t (&y)[kRows][kGroups]) {
    int8x16_t w[8];
    for (int t = 0; t < 8; ++t) w[t] = Lines::Load(lines, t, g);
    int32x4_t dots[kRows];
    Clear(dots);
    Dots::Add(w, x.quants, dots);
    AddScaled(dots, kPanel.exponents ? LoadBfloat16(halves, g) : LoadHalves(halves, g), x.scales, g,
              y);
    if constexpr (kPanel.halves == 2) {
      for (int r = 0; r < kRows; ++r) dots[r] = vdupq_n_s32(x.sums[r][0] + x.sums[r][1]);
      AddScaled(dots, LoadHalves(halves + kHalvesBytes, g), x.scales, g, y);
    }
  }
};

// Types in super-blocks of 256, of sub-blocks of kWidth. Byte i of lane n of scales[f] is the scale
// of output n's sub-block 4f + i, and so are minima; Load() gives vector t of elements 32j..32j+31.

// Bits 2 (j % 4) and the next of lines that hold them for elements 32j..32j+31.
static inline uint8x16_t PairsOf(const std::byte* pairs, int j, int t, int g) {
  const uint8x16_t line = LoadLine(pairs + (8 * (j / 4) + t) * kLineBytes, g);
  return vandq_u8(MoveDown(line, 2 * (j % 4)), vdupq_n_u8(3));
}

// Nibbles of sub-block j of Q4_K and Q5_K.
static inline uint8x16_t Q4_KNibblesOf(const std::byte* nibbles, int j, int t, int g) {
  const uint8x16_t line = LoadLine(nibbles + (8 * (j / 2) + t) * kLineBytes, g);
  return vandq_u8(MoveDown(line, 4 * (j % 2)), vdupq_n_u8(15));
}

struct Q4_KNeon {
  static constexpr QuantPanel kPanel = kQ4_KPanel;
  static constexpr int kWidth = 32;
  static constexpr bool kMinima = true;

  // Eight scales and eight minima of six bits: a_i and b_i have those of sub-block i and, above
  // them, two upper bits of 4 + i; c_i has the four lower bits of both.
  static inline void LoadScales(const std::byte* lines, const std::byte*, int g,
                                uint8x16_t (&scales)[2], uint8x16_t (&minima)[2]) {
    const uint8x16_t six = vdupq_n_u8(63);
    const uint8x16_t low = vdupq_n_u8(15);
    const uint8x16_t upper = vdupq_n_u8(48);
    const uint8x16_t a = LoadLine(lines, g);
    const uint8x16_t b = LoadLine(lines + kLineBytes, g);
    const uint8x16_t c = LoadLine(lines + 2 * kLineBytes, g);
    scales[0] = vandq_u8(a, six);
    scales[1] = vorrq_u8(vandq_u8(c, low), vandq_u8(vshrq_n_u8(a, 2), upper));
    minima[0] = vandq_u8(b, six);
    minima[1] = vorrq_u8(vshrq_n_u8(c, 4), vandq_u8(vshrq_n_u8(b, 2), upper));
  }

  static inline int8x16_t Load(const std::byte* lines, int j, int t, int g) {
    return vreinterpretq_s8_u8(Q4_KNibblesOf(lines + kQ4_KNibbleLine * kLineBytes, j, t, g));
  }
};

struct Q5_KNeon : Q4_KNeon {
  static constexpr QuantPanel kPanel = kQ5_KPanel;

  static inline int8x16_t Load(const std::byte* lines, int j, int t, int g) {
    const uint8x16_t line = LoadLine(lines + (kQ5_KFifthLine + t) * kLineBytes, g);
    const uint8x16_t fifth = vandq_u8(MoveDown(line, j - 4), vdupq_n_u8(16));
    return vreinterpretq_s8_u8(
        vorrq_u8(Q4_KNibblesOf(lines + kQ5_KNibbleLine * kLineBytes, j, t, g), fifth));
  }
};

struct Q6_KNeon {
  static constexpr QuantPanel kPanel = kQ6_KPanel;
  static constexpr int kWidth = 16;
  static constexpr bool kMinima = false;

  static inline void LoadScales(const std::byte* lines, const std::byte*, int g,
                                uint8x16_t (&scales)[4], uint8x16_t (&)[4]) {
    for (int f = 0; f < 4; ++f) scales[f] = LoadLine(lines + (kQ6_KScaleLine + f) * kLineBytes, g);
  }

  static inline int8x16_t Load(const std::byte* lines, int j, int t, int g) {
    const int quarter = j % 4;
    const uint8x16_t line =
        LoadLine(lines + (16 * (j / 4) + 8 * (quarter % 2) + t) * kLineBytes, g);
    const uint8x16_t nibble = vandq_u8(MoveDown(line, 4 * (quarter / 2)), vdupq_n_u8(15));
    const uint8x16_t pair = PairsOf(lines + kQ6_KUpperLine * kLineBytes, j, t, g);
    return Minus(vorrq_u8(nibble, vshlq_n_u8(pair, 4)), 32);
  }
};

struct Q2_KNeon {
  static constexpr QuantPanel kPanel = kQ2_KPanel;
  static constexpr int kWidth = 16;
  static constexpr bool kMinima = true;

  static inline void LoadScales(const std::byte* lines, const std::byte*, int g,
                                uint8x16_t (&scales)[4], uint8x16_t (&minima)[4]) {
    for (int f = 0; f < 4; ++f) {
      const uint8x16_t line = LoadLine(lines + f * kLineBytes, g);
      scales[f] = vandq_u8(line, vdupq_n_u8(15));
      minima[f] = vshrq_n_u8(line, 4);
    }
  }

  static inline int8x16_t Load(const std::byte* lines, int j, int t, int g) {
    return vreinterpretq_s8_u8(PairsOf(lines + kQ2_KPairLine * kLineBytes, j, t, g));
  }
};

struct Q3_KNeon {
  static constexpr QuantPanel kPanel = kQ3_KPanel;
  static constexpr int kWidth = 16;
  static constexpr bool kMinima = false;

  // Twelve bytes hold sixteen scales of six bits: bytes i of the first eight the lower halves of
  // scales i and, above, 8 + i; bit pairs p of bytes i of the last four the upper ones of 4p + i.
  static inline void LoadScales(const std::byte* lines, const std::byte*, int g,
                                uint8x16_t (&scales)[4], uint8x16_t (&)[4]) {
    const std::byte* const packed = lines + kQ3_KScaleLine * kLineBytes;
    const uint8x16_t pairs = LoadLine(packed + 2 * kLineBytes, g);
    for (int f = 0; f < 4; ++f) {
      const uint8x16_t line = LoadLine(packed + f % 2 * kLineBytes, g);
      const uint8x16_t lower = vandq_u8(MoveDown(line, 4 * (f / 2)), vdupq_n_u8(15));
      const uint8x16_t upper = vandq_u8(MoveDown(pairs, 2 * f - 4), vdupq_n_u8(48));
      scales[f] = vreinterpretq_u8_s8(Minus(vorrq_u8(lower, upper), 32));
    }
  }

  static inline int8x16_t Load(const std::byte* lines, int j, int t, int g) {
    const uint8x16_t third =
        vandq_u8(MoveDown(LoadLine(lines + t * kLineBytes, g), j - 2), vdupq_n_u8(4));
    return Minus(vorrq_u8(PairsOf(lines + kQ3_KPairLine * kLineBytes, j, t, g), third), 4);
  }
};

struct IQ4_XSNeon {
  static constexpr QuantPanel kPanel = kIQ4_XSPanel;
  static constexpr int kWidth = 32;
  static constexpr bool kMinima = false;

  // Lower halves of scales 2i and 2i + 1 are the nibbles of byte i; their upper bit pairs are
  // nibble i of 16 bits, which are dealt to the bytes of a dword.
  static inline void LoadScales(const std::byte* lines, const std::byte* halves, int g,
                                uint8x16_t (&scales)[2], uint8x16_t (&)[2]) {
    const uint8x16_t line = LoadLine(lines, g);
    const auto* const uppers = reinterpret_cast<const uint16_t*>(halves + kHalvesBytes) + 4 * g;
    uint32x4_t dealt = vmovl_u16(vld1_u16(uppers));
    dealt = vorrq_u32(vandq_u32(dealt, vdupq_n_u32(255)), vshlq_n_u32(vshrq_n_u32(dealt, 8), 16));
    dealt = vorrq_u32(dealt, vshlq_n_u32(dealt, 4));
    const uint8x16_t pairs = vreinterpretq_u8_u32(dealt);
    const uint8x16_t upper = vdupq_n_u8(48);
    const uint8x16_t even =
        vorrq_u8(vandq_u8(line, vdupq_n_u8(15)), vandq_u8(vshlq_n_u8(pairs, 4), upper));
    const uint8x16_t odd = vorrq_u8(vshrq_n_u8(line, 4), vandq_u8(vshlq_n_u8(pairs, 2), upper));
    // Each output's eight beside each other, of two outputs and of the next two; then apart again.
    const uint32x4_t first = vreinterpretq_u32_u8(vzip1q_u8(even, odd));
    const uint32x4_t next = vreinterpretq_u32_u8(vzip2q_u8(even, odd));
    scales[0] = vreinterpretq_u8_s8(Minus(vreinterpretq_u8_u32(vuzp1q_u32(first, next)), 32));
    scales[1] = vreinterpretq_u8_s8(Minus(vreinterpretq_u8_u32(vuzp2q_u32(first, next)), 32));
  }

  static inline int8x16_t Load(const std::byte* lines, int j, int t, int g) {
    const std::byte* const nibbles = lines + (kIQ4_XSNibbleLine + 4 * j) * kLineBytes;
    return vqtbl1q_s8(vld1q_s8(kIq4Values), NibblesOf(nibbles, t, g));
  }
};

template <typename Lines, typename Dots>
struct SuperBlockNeon {
  static constexpr QuantPanel kPanel = Lines::kPanel;
  static constexpr int kVectors = Lines::kWidth / 4;  // of a sub-block
  static constexpr int kSubBlocks = 256 / Lines::kWidth;

  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int g,
                              const RowBlocks<kRows>& x, float32x4_t (&y)[kRows][kGroups]) {
    uint8x16_t scales[kSubBlocks / 4];
    uint8x16_t minima[kSubBlocks / 4];
    Lines::LoadScales(lines, halves, g, scales, minima);
    int32x4_t dots[kRows];
    int32x4_t min_dots[kRows];
    Clear(dots);
    Clear(min_dots);
    for (int s = 0; s < kSubBlocks; ++s) {
      int8x16_t w[kVectors];
      for (int t = 0; t < kVectors; ++t) {
        const int at = s * kVectors + t;  // of the super-block
        w[t] = Lines::Load(lines, at / 8, at % 8, g);
      }
      const int32x4_t scale = ByteOf(scales[s / 4], s % 4);
      const int8_t* quants[kRows];
      x.Quants(Lines::kWidth * s, quants);
      int32x4_t dot[kRows];
      Clear(dot);
      Dots::Add(w, quants, dot);
      for (int r = 0; r < kRows; ++r) dots[r] = vmlaq_s32(dots[r], dot[r], scale);
      if constexpr (Lines::kMinima) {
        const int32x4_t min = ByteOf(minima[s / 4], s % 4);
        // Subtracted: it is -k that is scaled.
        for (int r = 0; r < kRows; ++r) {
          min_dots[r] = vmlsq_n_s32(min_dots[r], min, SumOf(x.sums[r], s));
        }
      }
    }
    AddScaled(dots, LoadHalves(halves, g), x.scales, g, y);
    if constexpr (Lines::kMinima) {
      AddScaled(min_dots, LoadHalves(halves + kHalvesBytes, g), x.scales, g, y);
    }
  }

  // Of the activations that meet sub-block s.
  static inline int32_t SumOf(const int16_t* sums, int s) {
    return Lines::kWidth == 16 ? sums[s] : sums[2 * s] + sums[2 * s + 1];
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

// An instruction set's table.
template <typename Dots>
static constexpr ProductKernels NeonProducts() {
  return {
      .f32 = neon::MultiplyF32,
      .f16 = neon::MultiplyF16,
      .bf16 = neon::MultiplyBF16,
      .q8_0 = MultiplyNeon<BlockNeon<Q8_0Neon, Dots>>,
      .q4_0 = MultiplyNeon<BlockNeon<FourBitsNeon<kQ4_0Panel, 8>, Dots>>,
      .q4_1 = MultiplyNeon<BlockNeon<FourBitsNeon<kQ4_1Panel, 0>, Dots>>,
      .q5_0 = MultiplyNeon<BlockNeon<FiveBitsNeon<kQ5_0Panel, 16>, Dots>>,
      .q5_1 = MultiplyNeon<BlockNeon<FiveBitsNeon<kQ5_1Panel, 0>, Dots>>,
      .iq4_nl = MultiplyNeon<BlockNeon<ValuesNeon<kIQ4_NLPanel, kIq4Values>, Dots>>,
      .mxfp4 = MultiplyNeon<BlockNeon<ValuesNeon<kMXFP4Panel, kMxfp4Values>, Dots>>,
      .q4_k = MultiplyNeon<SuperBlockNeon<Q4_KNeon, Dots>>,
      .q5_k = MultiplyNeon<SuperBlockNeon<Q5_KNeon, Dots>>,
      .q6_k = MultiplyNeon<SuperBlockNeon<Q6_KNeon, Dots>>,
      .q2_k = MultiplyNeon<SuperBlockNeon<Q2_KNeon, Dots>>,
      .q3_k = MultiplyNeon<SuperBlockNeon<Q3_KNeon, Dots>>,
      .iq4_xs = MultiplyNeon<SuperBlockNeon<IQ4_XSNeon, Dots>>,
  };
}

}  // namespace outrider
