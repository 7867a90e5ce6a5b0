// Blocks of quantised weights, as the lanes of a warp take them out of panels (panel_layout.h) and
// into tiles (matrix_fragments.h). A type says:
//
//   kBlock       elements of a block           kTileStep   inputs of a block that one tile covers
//   kStrip       blocks that a warp has at a time: at least 128 inputs
//   kIsScaled    whether a tile's sums are multiplied by an integer before they are added
//   kHasMinimum  whether there is a second, negative term for the quants' sums
//   Load(b, t, to)       what the lane needs of a block, as it lies there
//   Prepare(block)       once it is there, where it is scaled
//   Tile(block, step)    the lane's weights of the step-th tile, perhaps times a power of two
//   Scale(block, o, step)        of the lane's o-th output, what that tile's sums are multiplied by
//   MinimumPair(block, o, step)  and, twice in the lower bytes, what the rows' sums are
//   kSumStart, Value(sum)        what a tile's sum begins with, and the float of a block's sum
//   Element(b, n, k)     one weight as a float, as formats/tensors/dequantize.h decodes it
//
// Every dword of a panel's line belongs to one output. Outputs 2 * group and + 1, which lie side by
// side, are a lane's: in a tile they are those of group and group + 8. So a warp that loads
// fragments reads whole sectors, each once, and two dwords at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/matrix_fragments.h"
#include "common/formats/tensors/panel_layout.h"

namespace outrider::gpu {

// Block b of a panel of `inputs` inputs.
struct PanelBlock {
  const std::byte* lines;
  const std::byte* halves;

  OUTRIDER_HD uint32_t Dword(uint32_t line, uint32_t n) const {
    return *reinterpret_cast<const uint32_t*>(lines + line * kLineBytes + 4 * n);
  }
  OUTRIDER_HD uint32_t Byte(uint32_t i, uint32_t n) const {
    return Dword(i / 4, n) >> 8 * (i % 4) & 255;
  }
  OUTRIDER_HD uint16_t HalfBits(uint32_t h, uint32_t n) const {
    return *reinterpret_cast<const uint16_t*>(halves + h * kHalvesBytes + 2 * n);
  }
  OUTRIDER_HD float Half(uint32_t h, uint32_t n) const { return WidenHalf(HalfBits(h, n)); }

  // Of a block so many lines and halves further on.
  OUTRIDER_HD PanelBlock Next(uint32_t line_count, uint32_t half_count) const {
    return {lines + line_count * kLineBytes, halves + half_count * kHalvesBytes};
  }
};

// A block's lines and halves in its panel.
template <typename Type>
OUTRIDER_HD PanelBlock BlockOf(const std::byte* panel, uint32_t inputs, uint32_t b) {
  const size_t halves_at = size_t{inputs / Type::kBlock} * (Type::kLines * kLineBytes);
  return {panel + size_t{b} * (Type::kLines * kLineBytes),
          panel + halves_at + size_t{b} * (Type::kHalves * kHalvesBytes)};
}

// Of its panel, output o of a lane's two; and which of them a lane's sum is (RowOfSum says the row).
OUTRIDER_HD uint32_t PanelOutput(uint32_t thread, uint32_t o) {
  return 2 * GroupOf(thread) + o;
}
OUTRIDER_HD uint32_t LaneOutputOfSum(uint32_t sum) {
  return sum / 2;
}

// A lane's part of a block: what it has loaded, and the scales of its two outputs.
template <typename Type>
struct LaneBlock {
  uint32_t dwords[Type::kLaneDwords];
  uint32_t halves[Type::kHalves];  // the first output's lower

  OUTRIDER_HD void LoadHalves(const PanelBlock& b, uint32_t thread) {
    const auto* const at = reinterpret_cast<const uint32_t*>(b.halves) + GroupOf(thread);
    OUTRIDER_UNROLL
    for (uint32_t h = 0; h < Type::kHalves; ++h) halves[h] = at[h * (kPanelOutputs / 2)];
  }
  OUTRIDER_HD float Half(uint32_t h, uint32_t o) const {
    return WidenHalf(static_cast<uint16_t>(halves[h] >> 16 * o));
  }
};

// A lane's two outputs in a block's lines, from the line on that it begins with.
struct LaneLines {
  const uint32_t* at;

  OUTRIDER_HD LaneLines(const PanelBlock& b, uint32_t first_line, uint32_t thread)
      : at(reinterpret_cast<const uint32_t*>(b.lines + size_t{first_line} * kLineBytes) +
           PanelOutput(thread, 0)) {}
  OUTRIDER_HD void Load(uint32_t line, uint32_t* to) const {
    struct alignas(8) Two {
      uint32_t at[2];
    };
    const Two two = *reinterpret_cast<const Two*>(at + line * kPanelOutputs);
    to[0] = two.at[0];
    to[1] = two.at[1];
  }
  // Of a tile's 32 bytes, the two that a fragment has.
  OUTRIDER_HD void LoadTwo(uint32_t line, uint32_t* to) const {
    Load(line, to);
    Load(line + 4, to + 2);
  }
};

OUTRIDER_HD int32_t SignedByte(uint32_t byte) {
  return static_cast<int8_t>(byte);
}

// One byte of a dword, twice, in the lower bytes.
OUTRIDER_HD uint32_t ByteTwice(uint32_t dword, uint32_t i) {
#ifdef __CUDA_ARCH__
  return __byte_perm(dword, 0, 0x4400 | i << 4 | i);
#else
  return (dword >> 8 * i & 255) * 0x0101u;
#endif
}

// sum + the two int16 of `pair`, each times an int8 of the lower two of `bytes`.
OUTRIDER_HD int32_t AddPairTimes(uint32_t pair, uint32_t bytes, int32_t sum) {
#ifdef __CUDA_ARCH__
  return __dp2a_lo(static_cast<int>(pair), static_cast<int>(bytes), sum);
#else
  return sum + static_cast<int16_t>(pair) * static_cast<int8_t>(bytes) +
         static_cast<int16_t>(pair >> 16) * static_cast<int8_t>(bytes >> 8);
#endif
}

// Sums of 32 products are integers of less than 2^22, and begin with the bits of 1.5 * 2^23: read
// as a float they are that much more than the integer, which one subtraction gives exactly.
inline constexpr int32_t kFloatSumStart = 0x4b400000;

struct Q8_0Block {
  static constexpr uint32_t kBlock = 32, kLines = 8, kHalves = 1, kTileStep = 32, kStrip = 4;
  static constexpr uint32_t kLaneDwords = 4;
  static constexpr int32_t kSumStart = kFloatSumStart;
  static constexpr bool kIsScaled = false, kHasMinimum = false;

  static OUTRIDER_HD void Load(const PanelBlock& b, uint32_t t, LaneBlock<Q8_0Block>& to) {
    LaneLines(b, PlaceOf(t), t).LoadTwo(0, to.dwords);
    to.LoadHalves(b, t);
  }
  static OUTRIDER_HD WeightFragment Tile(const LaneBlock<Q8_0Block>& b, uint32_t) {
    return {{b.dwords[0], b.dwords[1], b.dwords[2], b.dwords[3]}};
  }
  static OUTRIDER_HD float Value(int32_t sum) {
    return FloatOf(static_cast<uint32_t>(sum)) - 0x1.8p+23f;
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    return b.Half(0, n) * static_cast<float>(SignedByte(b.Byte(k, n)));
  }
};

struct Q4_0Block {
  static constexpr uint32_t kBlock = 32, kLines = 4, kHalves = 1, kTileStep = 32, kStrip = 4;
  static constexpr uint32_t kLaneDwords = 2;
  static constexpr int32_t kSumStart = kFloatSumStart;
  static constexpr bool kIsScaled = false, kHasMinimum = false;

  static OUTRIDER_HD void Load(const PanelBlock& b, uint32_t t, LaneBlock<Q4_0Block>& to) {
    LaneLines(b, PlaceOf(t), t).Load(0, to.dwords);
    to.LoadHalves(b, t);
  }
  static OUTRIDER_HD WeightFragment Tile(const LaneBlock<Q4_0Block>& b, uint32_t) {
    return {{SixteenTimes(b.dwords[0] << 4), SixteenTimes(b.dwords[1] << 4),
             SixteenTimes(b.dwords[0]), SixteenTimes(b.dwords[1])}};
  }
  static OUTRIDER_HD float Value(int32_t sum) {
    return Fma(FloatOf(static_cast<uint32_t>(sum)), 0x1p-4f, -0x1.8p+19f);
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    const auto nibble = static_cast<int32_t>(b.Byte(k % 16, n) >> 4 * (k / 16) & 15);
    return b.Half(0, n) * static_cast<float>(nibble - 8);
  }

 private:
  // The upper nibbles, each less 8: as the upper half of an int8 that is a matter of its sign.
  static OUTRIDER_HD uint32_t SixteenTimes(uint32_t nibbles) {
#ifdef __CUDA_ARCH__
    uint32_t made;  // nvcc would take two instructions, for two constants
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;"
        : "=r"(made)
        : "r"(nibbles), "r"(0xf0f0f0f0u), "r"(0x80808080u));
    return made;
#else
    return (nibbles & 0xf0f0f0f0u) ^ 0x80808080u;
#endif
  }
};

// The twelve bytes of scales and minima that Q4_K and Q5_K begin with, six bits each. A lane has
// them as dwords 4 * o ..+3 for its output o: scales of sub-blocks 0..3, of 4..7, minima likewise.
struct PackedScales {
  static constexpr uint32_t kScaleDwords = 8;
  static constexpr int32_t kSumStart = 0;
  static constexpr bool kIsScaled = true, kHasMinimum = true;

  static OUTRIDER_HD void LoadScales(const PanelBlock& b, uint32_t t, uint32_t* to) {
    OUTRIDER_UNROLL
    for (uint32_t line = 0; line < 3; ++line) {
      uint32_t of_line[2];
      LaneLines(b, 0, t).Load(line, of_line);
      to[line] = of_line[0];
      to[4 + line] = of_line[1];
    }
  }
  static OUTRIDER_HD void PrepareScales(uint32_t* of) {
    const uint32_t first = of[0], second = of[1], third = of[2];
    of[0] = first & 0x3f3f3f3fu;
    of[1] = (third & 0x0f0f0f0fu) | (first >> 2 & 0x30303030u);
    of[2] = second & 0x3f3f3f3fu;
    of[3] = (third >> 4 & 0x0f0f0f0fu) | (second >> 2 & 0x30303030u);
  }
  template <typename Type>
  static OUTRIDER_HD void Prepare(LaneBlock<Type>& b) {
    PrepareScales(b.dwords);
    PrepareScales(b.dwords + 4);
  }
  template <typename Type>
  static OUTRIDER_HD int32_t Scale(const LaneBlock<Type>& b, uint32_t o, uint32_t step) {
    return ScaleOf(b.dwords, o, step);
  }
  template <typename Type>
  static OUTRIDER_HD uint32_t MinimumPair(const LaneBlock<Type>& b, uint32_t o, uint32_t step) {
    return MinimumPairOf(b.dwords, o, step);
  }
  static OUTRIDER_HD float Value(int32_t sum) { return static_cast<float>(sum); }
  static OUTRIDER_HD int32_t ScaleOf(const uint32_t* dwords, uint32_t o, uint32_t j) {
    return static_cast<int32_t>(dwords[4 * o + j / 4] >> 8 * (j % 4) & 255);
  }
  static OUTRIDER_HD uint32_t MinimumPairOf(const uint32_t* dwords, uint32_t o, uint32_t j) {
    return ByteTwice(dwords[4 * o + 2 + j / 4], j % 4);
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t j, uint32_t quant) {
    uint32_t dwords[4] = {b.Dword(0, n), b.Dword(1, n), b.Dword(2, n)};
    PrepareScales(dwords);
    const float scale = b.Half(0, n) * static_cast<float>(ScaleOf(dwords, 0, j));
    const float minimum = b.Half(1, n) * static_cast<float>(MinimumPairOf(dwords, 0, j) & 255);
    return scale * static_cast<float>(quant) - minimum;
  }
};

struct Q4_KBlock : PackedScales {
  static constexpr uint32_t kBlock = 256, kLines = 35, kHalves = 2, kTileStep = 32, kStrip = 1;
  static constexpr uint32_t kLaneDwords = kScaleDwords + 16;

  static OUTRIDER_HD void Load(const PanelBlock& b, uint32_t t, LaneBlock<Q4_KBlock>& to) {
    LoadScales(b, t, to.dwords);
    const LaneLines lines(b, PlaceOf(t), t);
    OUTRIDER_UNROLL
    for (uint32_t pair = 0; pair < 4; ++pair) {
      lines.LoadTwo(kQ4_KNibbleLine + 8 * pair, to.dwords + kScaleDwords + 4 * pair);
    }
    to.LoadHalves(b, t);
  }
  static OUTRIDER_HD WeightFragment Tile(const LaneBlock<Q4_KBlock>& b, uint32_t step) {
    WeightFragment tile;
    OUTRIDER_UNROLL
    for (uint32_t d = 0; d < 4; ++d) {
      tile.dwords[d] = Quants(b.dwords[kScaleDwords + 4 * (step / 2) + d], step);
    }
    return tile;
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    const uint32_t step = k / 32, line = k % 32 / 4;
    const uint32_t dword = Quants(b.Dword(kQ4_KNibbleLine + 8 * (step / 2) + line, n), step);
    return PackedScales::Element(b, n, step, dword >> 8 * (k % 4) & 255);
  }

 private:
  static OUTRIDER_HD uint32_t Quants(uint32_t nibbles, uint32_t step) {
    return nibbles >> 4 * (step % 2) & 0x0f0f0f0fu;
  }
};

struct Q5_KBlock : PackedScales {
  static constexpr uint32_t kBlock = 256, kLines = 43, kHalves = 2, kTileStep = 32, kStrip = 1;
  static constexpr uint32_t kFifthDword = kScaleDwords, kNibbleDword = kFifthDword + 4;
  static constexpr uint32_t kLaneDwords = kNibbleDword + 16;

  static OUTRIDER_HD void Load(const PanelBlock& b, uint32_t t, LaneBlock<Q5_KBlock>& to) {
    LoadScales(b, t, to.dwords);
    const LaneLines lines(b, PlaceOf(t), t);
    lines.LoadTwo(kQ5_KFifthLine, to.dwords + kFifthDword);
    OUTRIDER_UNROLL
    for (uint32_t pair = 0; pair < 4; ++pair) {
      lines.LoadTwo(kQ5_KNibbleLine + 8 * pair, to.dwords + kNibbleDword + 4 * pair);
    }
    to.LoadHalves(b, t);
  }
  static OUTRIDER_HD WeightFragment Tile(const LaneBlock<Q5_KBlock>& b, uint32_t step) {
    WeightFragment tile;
    OUTRIDER_UNROLL
    for (uint32_t d = 0; d < 4; ++d) {
      tile.dwords[d] =
          Quants(b.dwords[kNibbleDword + 4 * (step / 2) + d], b.dwords[kFifthDword + d], step);
    }
    return tile;
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    const uint32_t step = k / 32, line = k % 32 / 4;
    const uint32_t dword = Quants(b.Dword(kQ5_KNibbleLine + 8 * (step / 2) + line, n),
                                  b.Dword(kQ5_KFifthLine + line, n), step);
    return PackedScales::Element(b, n, step, dword >> 8 * (k % 4) & 255);
  }

 private:
  static OUTRIDER_HD uint32_t Quants(uint32_t nibbles, uint32_t fifths, uint32_t step) {
    const uint32_t fifth = step < 4 ? fifths << (4 - step) : fifths >> (step - 4);
    return (nibbles >> 4 * (step % 2) & 0x0f0f0f0fu) | (fifth & 0x10101010u);
  }
};

// Sub-blocks of 16: a tile is half full. Its weights are four times what they stand for, so that to
// be less 32 is a matter of an int8's sign, and so is a block's sum.
struct Q6_KBlock {
  static constexpr uint32_t kBlock = 256, kLines = 52, kHalves = 1, kTileStep = 16, kStrip = 1;
  static constexpr uint32_t kUpperDword = 16, kScaleDword = kUpperDword + 8;
  static constexpr uint32_t kLaneDwords = kScaleDword + 8;
  static constexpr int32_t kSumStart = 0;
  static constexpr bool kIsScaled = true, kHasMinimum = false;

  static OUTRIDER_HD void Load(const PanelBlock& b, uint32_t t, LaneBlock<Q6_KBlock>& to) {
    const LaneLines lines(b, PlaceOf(t), t), scales(b, kQ6_KScaleLine, t);
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < 8; ++i) lines.Load(4 * i, to.dwords + 2 * i);
    OUTRIDER_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      lines.Load(kQ6_KUpperLine + 4 * i, to.dwords + kUpperDword + 2 * i);
      scales.Load(i, to.dwords + kScaleDword + 2 * i);
    }
    to.LoadHalves(b, t);
  }
  static OUTRIDER_HD void Prepare(LaneBlock<Q6_KBlock>&) {}
  static OUTRIDER_HD WeightFragment Tile(const LaneBlock<Q6_KBlock>& b, uint32_t step) {
    const uint32_t half = step / 8, quarter = step % 8 / 2;
    const uint32_t* const nibbles = b.dwords + 2 * (4 * half + 2 * (quarter % 2) + step % 2);
    const uint32_t* const upper = b.dwords + kUpperDword + 2 * (2 * half + step % 2);
    return {
        {FourTimes(nibbles[0], upper[0], quarter), FourTimes(nibbles[1], upper[1], quarter), 0, 0}};
  }
  static OUTRIDER_HD int32_t Scale(const LaneBlock<Q6_KBlock>& b, uint32_t o, uint32_t step) {
    return SignedByte(b.dwords[kScaleDword + 2 * (step / 4) + o] >> 8 * (step % 4) & 255);
  }
  static OUTRIDER_HD float Value(int32_t sum) {
    const int32_t once = sum / 4;
    return static_cast<float>(once);
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    const uint32_t half = k / 128, quarter = k % 128 / 32, line = k % 32 / 4;
    const uint32_t dword = FourTimes(b.Dword(16 * half + 8 * (quarter % 2) + line, n),
                                     b.Dword(kQ6_KUpperLine + 8 * half + line, n), quarter);
    const int32_t quant = SignedByte(dword >> 8 * (k % 4) & 255) / 4;
    const int32_t scale = SignedByte(b.Byte(4 * kQ6_KScaleLine + k / 16, n));
    return b.Half(0, n) * static_cast<float>(scale) * static_cast<float>(quant);
  }

 private:
  static OUTRIDER_HD uint32_t FourTimes(uint32_t nibbles, uint32_t upper, uint32_t quarter) {
    const uint32_t low = quarter < 2 ? nibbles << 2 : nibbles >> 2;
    return (low & 0x3c3c3c3cu) | ((upper << (6 - 2 * quarter) & 0xc0c0c0c0u) ^ 0x80808080u);
  }
};

}  // namespace outrider::gpu
