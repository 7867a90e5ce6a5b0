// The bytes of a panel: sixteen outputs side by side, so that a 64-byte line is one AVX-512
// register, two of AVX2 or four of NEON, and every lane is an output.
//
//   F32, F16, BF16   element k of outputs 0..15, then element k + 1, ...
//   quantised        the lines of block 0, of block 1, ...; then the halves of block 0, of block
//                    1, ... A block of GGUF is a few f16 scales ("halves") and other bytes. The
//                    other bytes are cut into dwords: line t of a block holds dword t of each
//                    output, output n at byte 4n. Each scale gives 32 bytes, output n at byte 2n.
//
// So the lines of one block, and which elements k their dwords stand for, are:
//
//   Q8_0   8 lines: line t is k = 4t..4t+3
//   Q4_0   4 lines: line t has k = 4t..4t+3 in low nibbles and k + 16 in high ones
//   Q4_K   35 lines: 3 of packed 6-bit scales and minima, 32 of nibbles: line 8p + t has
//          k = 64p + 4t..4t+3 in low nibbles and k + 32 in high ones.  Halves: d, dmin
//   Q6_K   52 lines: 32 of nibbles, line 16h + 8p + t has k = 128h + 32p + 4t.. low, k + 64 high;
//          16 of upper bit pairs, line 8h + t has k = 128h + 32i + 4t.. in bits 2i, 2i + 1;
//          4 of int8 scales, line t has those of sub-blocks 4t..4t+3.  Halves: d
//
// A panel is padded to whole lines. Lines and halves are two streams in ascending addresses, which
// is how memory likes to be read.
//
// Plain constants, free of other headers: files compiled for one instruction set include this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

inline constexpr uint32_t kPanelOutputs = 16;
inline constexpr size_t kLineBytes = 64;    // a dword of each output
inline constexpr size_t kHalvesBytes = 32;  // a half of each output

struct QuantPanel {
  uint32_t block;      // elements
  uint32_t lines;      // of a block
  uint32_t halves;     // of a block
  uint32_t halves_at;  // where in GGUF's block they stand, in bytes: first, or last
};

inline constexpr QuantPanel kQ8_0Panel = {32, 8, 1, 0};
inline constexpr QuantPanel kQ4_0Panel = {32, 4, 1, 0};
inline constexpr QuantPanel kQ4_KPanel = {256, 35, 2, 0};
inline constexpr QuantPanel kQ6_KPanel = {256, 52, 1, 208};

inline constexpr uint32_t kQ4_KScaleLines = 3;  // before the nibbles
inline constexpr uint32_t kQ6_KUpperLine = 32;  // where the upper bit pairs begin
inline constexpr uint32_t kQ6_KScaleLine = 48;  // where the scales begin

// static: a copy per file, so that none compiled for a newer processor is called on an older one.
static constexpr size_t HalvesOffset(const QuantPanel& panel, uint32_t inputs) {
  return inputs / panel.block * (panel.lines * kLineBytes);
}

static constexpr size_t PanelSize(const QuantPanel& panel, uint32_t inputs) {
  const size_t bytes =
      HalvesOffset(panel, inputs) + inputs / panel.block * (panel.halves * kHalvesBytes);
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// For elements of 2 or 4 bytes.
static constexpr size_t PlainPanelSize(size_t element_bytes, uint32_t inputs) {
  const size_t bytes = size_t{inputs} * kPanelOutputs * element_bytes;
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

}  // namespace outrider
