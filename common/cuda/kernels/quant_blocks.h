// Blocks of quantised weights, as the lanes of a warp take them out of panels (panel_layout.h) and
// into tiles (matrix_fragments.h). A type says:
//
//   kBlock       elements of a block           kTileStep   inputs of a block that one tile covers
//   kHasMinimum  whether there is a second, negative term for the quants' sums
//   Tile(b, t, step)     the lane's weights of the step-th tile
//   Scale(b, n, step)    the integer that the tile's sums are multiplied with
//   Minimum(b, n, step)  and the one for its rows' quants, where there is a minimum
//   Element(b, n, k)     one weight as a float, as formats/tensors/dequantize.h decodes it
//
// Every dword of a panel's line belongs to one output, and a lane's fragments are those of two
// outputs, so a warp that loads fragments reads whole sectors, each once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/matrix_fragments.h"
#include "common/kernels/panel_layout.h"

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
  OUTRIDER_HD float Half(uint32_t h, uint32_t n) const {
    return WidenHalf(*reinterpret_cast<const uint16_t*>(halves + h * kHalvesBytes + 2 * n));
  }
};

// Bytes of 0..127 less a constant of 1..127 each, as int8.
OUTRIDER_HD uint32_t LessEach(uint32_t bytes, uint32_t constant) {
  return ((bytes | 0x80808080u) - constant) ^ 0x80808080u;
}

OUTRIDER_HD int32_t SignedByte(uint32_t byte) {
  return static_cast<int8_t>(byte);
}

// A block's lines and halves in its panel.
template <typename Type>
OUTRIDER_HD PanelBlock BlockOf(const std::byte* panel, uint32_t inputs, uint32_t b) {
  const size_t halves_at = size_t{inputs / Type::kBlock} * (Type::kLines * kLineBytes);
  return {panel + size_t{b} * (Type::kLines * kLineBytes),
          panel + halves_at + size_t{b} * (Type::kHalves * kHalvesBytes)};
}

struct Q8_0Block {
  static constexpr uint32_t kBlock = 32, kLines = 8, kHalves = 1, kTileStep = 32;
  static constexpr bool kHasMinimum = false;

  static OUTRIDER_HD WeightFragment Tile(const PanelBlock& b, uint32_t t, uint32_t) {
    const uint32_t g = GroupOf(t), line = PlaceOf(t);
    return {
        {b.Dword(line, g), b.Dword(line, g + 8), b.Dword(line + 4, g), b.Dword(line + 4, g + 8)}};
  }
  static OUTRIDER_HD int32_t Scale(const PanelBlock&, uint32_t, uint32_t) { return 1; }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    return b.Half(0, n) * static_cast<float>(SignedByte(b.Byte(k, n)));
  }
};

struct Q4_0Block {
  static constexpr uint32_t kBlock = 32, kLines = 4, kHalves = 1, kTileStep = 32;
  static constexpr bool kHasMinimum = false;

  static OUTRIDER_HD WeightFragment Tile(const PanelBlock& b, uint32_t t, uint32_t) {
    const uint32_t here = b.Dword(PlaceOf(t), GroupOf(t));
    const uint32_t there = b.Dword(PlaceOf(t), GroupOf(t) + 8);
    return {{Quants(here), Quants(there), Quants(here >> 4), Quants(there >> 4)}};
  }
  static OUTRIDER_HD int32_t Scale(const PanelBlock&, uint32_t, uint32_t) { return 1; }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    const auto nibble = static_cast<int32_t>(b.Byte(k % 16, n) >> 4 * (k / 16) & 15);
    return b.Half(0, n) * static_cast<float>(nibble - 8);
  }

 private:
  static OUTRIDER_HD uint32_t Quants(uint32_t nibbles) {
    return LessEach(nibbles & 0x0f0f0f0fu, 0x08080808u);
  }
};

// The twelve bytes of scales and minima that Q4_K and Q5_K begin with.
struct PackedScales {
  static OUTRIDER_HD int32_t Scale(const PanelBlock& b, uint32_t n, uint32_t j) {
    if (j < 4) return static_cast<int32_t>(b.Byte(j, n) & 63);
    return static_cast<int32_t>((b.Byte(j + 4, n) & 15) | b.Byte(j - 4, n) >> 6 << 4);
  }
  static OUTRIDER_HD int32_t Minimum(const PanelBlock& b, uint32_t n, uint32_t j) {
    if (j < 4) return static_cast<int32_t>(b.Byte(j + 4, n) & 63);
    return static_cast<int32_t>(b.Byte(j + 4, n) >> 4 | b.Byte(j, n) >> 6 << 4);
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t j, uint32_t quant) {
    const float scale = b.Half(0, n) * static_cast<float>(Scale(b, n, j));
    const float minimum = b.Half(1, n) * static_cast<float>(Minimum(b, n, j));
    return scale * static_cast<float>(quant) - minimum;
  }
};

// Super-blocks of eight sub-blocks of 32. `Quants` says of a block which four quants stand at
// elements 32 * step + 4 * line ..+3 of output n.
template <typename Quants>
struct ScaledSubBlocks : PackedScales {
  static constexpr uint32_t kBlock = 256, kHalves = 2, kTileStep = 32;
  static constexpr bool kHasMinimum = true;

  static OUTRIDER_HD WeightFragment Tile(const PanelBlock& b, uint32_t t, uint32_t step) {
    const uint32_t g = GroupOf(t), line = PlaceOf(t);
    return {{Quants::At(b, g, line, step), Quants::At(b, g + 8, line, step),
             Quants::At(b, g, line + 4, step), Quants::At(b, g + 8, line + 4, step)}};
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    const uint32_t dword = Quants::At(b, n, k % 32 / 4, k / 32);
    return PackedScales::Element(b, n, k / 32, dword >> 8 * (k % 4) & 255);
  }
};

struct Q4_KQuants {
  static OUTRIDER_HD uint32_t At(const PanelBlock& b, uint32_t n, uint32_t line, uint32_t step) {
    return b.Dword(kQ4_KNibbleLine + 8 * (step / 2) + line, n) >> 4 * (step % 2) & 0x0f0f0f0fu;
  }
};

struct Q5_KQuants {
  static OUTRIDER_HD uint32_t At(const PanelBlock& b, uint32_t n, uint32_t line, uint32_t step) {
    const uint32_t nibbles =
        b.Dword(kQ5_KNibbleLine + 8 * (step / 2) + line, n) >> 4 * (step % 2) & 0x0f0f0f0fu;
    const uint32_t fifth = b.Dword(kQ5_KFifthLine + line, n) >> step & 0x01010101u;
    return nibbles | fifth << 4;
  }
};

struct Q4_KBlock : ScaledSubBlocks<Q4_KQuants> {
  static constexpr uint32_t kLines = 35;
};

struct Q5_KBlock : ScaledSubBlocks<Q5_KQuants> {
  static constexpr uint32_t kLines = 43;
};

// Sub-blocks of 16: a tile is half full.
struct Q6_KBlock {
  static constexpr uint32_t kBlock = 256, kLines = 52, kHalves = 1, kTileStep = 16;
  static constexpr bool kHasMinimum = false;

  static OUTRIDER_HD WeightFragment Tile(const PanelBlock& b, uint32_t t, uint32_t step) {
    return {{Quants(b, GroupOf(t), PlaceOf(t), step), Quants(b, GroupOf(t) + 8, PlaceOf(t), step),
             0, 0}};
  }
  static OUTRIDER_HD int32_t Scale(const PanelBlock& b, uint32_t n, uint32_t step) {
    return SignedByte(b.Byte(4 * kQ6_KScaleLine + step, n));
  }
  static OUTRIDER_HD float Element(const PanelBlock& b, uint32_t n, uint32_t k) {
    const uint32_t dword = Quants(b, n, k % 16 / 4, k / 16);
    const float scale = b.Half(0, n) * static_cast<float>(Scale(b, n, k / 16));
    return scale * static_cast<float>(SignedByte(dword >> 8 * (k % 4) & 255));
  }

 private:
  // Elements 16 * step + 4 * place ..+3.
  static OUTRIDER_HD uint32_t Quants(const PanelBlock& b, uint32_t n, uint32_t place,
                                     uint32_t step) {
    const uint32_t half = step / 8, quarter = step % 8 / 2, line = 4 * (step % 2) + place;
    const uint32_t nibbles =
        b.Dword(16 * half + 8 * (quarter % 2) + line, n) >> 4 * (quarter / 2) & 0x0f0f0f0fu;
    const uint32_t pairs =
        b.Dword(kQ6_KUpperLine + 8 * half + line, n) >> 2 * quarter & 0x03030303u;
    return LessEach(nibbles | pairs << 4, 0x20202020u);
  }
};

}  // namespace outrider::gpu
