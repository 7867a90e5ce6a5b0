// Rows to int8 (NUMERICS.md, section 3).
#pragma once

#include <cstdint>

namespace outrider {
namespace {

// The two divisions of a block whose largest magnitude has these bits.
struct BlockScale {
  float d;
  float v;  // 0: every quant is 0
};

inline BlockScale ScaleOf(uint32_t magnitude_bits) {
  constexpr uint32_t kInfinityBits = 0x7f800000;
  // A block that holds infinity or NaN makes every product it is in a NaN, which choosers refuse.
  if (magnitude_bits >= kInfinityBits) return {__builtin_nanf(""), 0.0f};
  if (magnitude_bits == 0) return {0.0f, 0.0f};
  float m;
  __builtin_memcpy(&m, &magnitude_bits, sizeof(m));
  const float v = 127.0f / m;
  if (v == __builtin_inff()) return {0.0f, 0.0f};  // m is next to nothing: below 127 / FLT_MAX
  return {m / 127.0f, v};
}

template <class Lanes, uint32_t kBlock>
void QuantizeBlocks(const float* x, uint32_t block_count, int8_t* quants, float* scales,
                    int16_t* sums) {
  constexpr uint32_t kParts = kBlock / 16;
  for (uint32_t b = 0; b < block_count; ++b) {
    // Bits of magnitudes are in their order, NaN above all; floats compared as floats
    // would let a NaN pass or not by the order of their operands.
    typename Lanes::Ints largest = Lanes::Load(x).MagnitudeBits();
    for (uint32_t i = 1; i < kParts; ++i) {
      largest = Lanes::LargerBits(largest, Lanes::Load(x + 16 * i).MagnitudeBits());
    }
    const BlockScale scale = ScaleOf(Lanes::LargestBits(largest));
    scales[b] = scale.d;
    if (scale.v == 0.0f) {  // the block may hold what has no integer
      __builtin_memset(quants, 0, kBlock);
      __builtin_memset(sums, 0, kParts * sizeof(int16_t));
    } else {
      const Lanes v = Lanes::Of(scale.v);
      for (uint32_t i = 0; i < kParts; ++i) {
        sums[i] = (Lanes::Load(x + 16 * i) * v).StoreRounded(quants + 16 * i);
      }
    }
    x += kBlock;
    quants += kBlock;
    sums += kParts;
  }
}

template <class Lanes>
void QuantizeRow(const float* x, uint32_t count, uint32_t block, int8_t* quants, float* scales,
                 int16_t* sums) {
  if (block == 32) {
    QuantizeBlocks<Lanes, 32>(x, count / 32, quants, scales, sums);
  } else {
    QuantizeBlocks<Lanes, 256>(x, count / 256, quants, scales, sums);
  }
}

}  // namespace
}  // namespace outrider
