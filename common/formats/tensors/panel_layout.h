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
//   Q8_0    8 lines: line t is k = 4t..4t+3
//   Q4_0    4 lines of nibbles: line t has k = 4t..4t+3 in low nibbles and k + 16 in high ones
//   Q4_1    as Q4_0.  Halves: d, m
//   Q5_0    5 lines: 1 of fifth bits, byte i of a dword has k = 4t + i in bit t; then as Q4_0
//   Q5_1    as Q5_0.  Halves: d, m
//   IQ4_NL  as Q4_0; nibbles are indices into kIq4Values (nibble_values.h)
//   MXFP4   as Q4_0; nibbles are indices into kMxfp4Values.  Its scale, a power of two that GGUF
//           keeps as one byte, is a bfloat16 here
//   Q4_K    35 lines: 3 of packed 6-bit scales and minima, 32 of nibbles: line 8p + t has
//           k = 64p + 4t..4t+3 in low nibbles and k + 32 in high ones.  Halves: d, dmin
//   Q5_K    43 lines: 3 as Q4_K; 8 of fifth bits, line t has k = 32j + 4t.. in bit j; 32 as Q4_K.
//           Halves: d, dmin
//   Q6_K    52 lines: 32 of nibbles, line 16h + 8p + t has k = 128h + 32p + 4t.. low, k + 64 high;
//           16 of upper bit pairs, line 8h + t has k = 128h + 32i + 4t.. in bits 2i, 2i + 1;
//           4 of int8 scales, line t has those of sub-blocks 4t..4t+3.  Halves: d
//   Q2_K    20 lines: 4 of scales and minima, line t has those of sub-blocks 4t..4t+3 in low and
//           high nibbles; 16 of bit pairs, as the upper ones of Q6_K.  Halves: d, dmin
//   Q3_K    27 lines: 8 of third bits, as the fifth ones of Q5_K; 16 of bit pairs; 3 of packed
//           6-bit scales.  Halves: d
//   IQ4_XS  33 lines: 1 of lower halves of scales, those of sub-blocks 2i and 2i + 1 in byte i;
//           32 of nibbles, line 4j + t has k = 32j + 4t.. low, k + 16 high; indices as IQ4_NL's.
//           Halves: d, and no number but the upper bit pairs of the scales
//
// But for the fifth bits of Q5_0 and Q5_1 and the scale of MXFP4, bits stay as GGUF has them.
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
  uint32_t block;           // elements
  uint32_t lines;           // of a block
  uint32_t halves;          // of a block
  uint32_t halves_at;       // where in GGUF's block they stand, in bytes: first, or last
  bool fifth_word = false;  // line 0 is GGUF's word of fifth bits, dealt out
  bool exponents = false;   // GGUF's scales are exponents of a byte each
};

inline constexpr QuantPanel kQ8_0Panel = {32, 8, 1, 0};
inline constexpr QuantPanel kQ4_0Panel = {32, 4, 1, 0};
inline constexpr QuantPanel kQ4_1Panel = {32, 4, 2, 0};
inline constexpr QuantPanel kQ5_0Panel = {32, 5, 1, 0, true, false};
inline constexpr QuantPanel kQ5_1Panel = {32, 5, 2, 0, true, false};
inline constexpr QuantPanel kIQ4_NLPanel = {32, 4, 1, 0};
inline constexpr QuantPanel kMXFP4Panel = {32, 4, 1, 0, false, true};
inline constexpr QuantPanel kQ4_KPanel = {256, 35, 2, 0};
inline constexpr QuantPanel kQ5_KPanel = {256, 43, 2, 0};
inline constexpr QuantPanel kQ6_KPanel = {256, 52, 1, 208};
inline constexpr QuantPanel kQ2_KPanel = {256, 20, 2, 80};
inline constexpr QuantPanel kQ3_KPanel = {256, 27, 1, 108};
inline constexpr QuantPanel kIQ4_XSPanel = {256, 33, 2, 0};

inline constexpr uint32_t kQ5_0NibbleLine = 1;  // after the fifth bits; Q5_1 too
inline constexpr uint32_t kQ4_KNibbleLine = 3;  // after the scales
inline constexpr uint32_t kQ5_KFifthLine = 3;
inline constexpr uint32_t kQ5_KNibbleLine = 11;
inline constexpr uint32_t kQ6_KUpperLine = 32;  // where the upper bit pairs begin
inline constexpr uint32_t kQ6_KScaleLine = 48;  // where the scales begin
inline constexpr uint32_t kQ2_KPairLine = 4;
inline constexpr uint32_t kQ3_KPairLine = 8;
inline constexpr uint32_t kQ3_KScaleLine = 24;
inline constexpr uint32_t kIQ4_XSNibbleLine = 1;

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
