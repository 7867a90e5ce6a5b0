#include "common/formats/tensors/dequantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/tensors/block_numbers.h"
#include "common/formats/tensors/dequantize_grid.h"
#include "common/formats/tensors/half.h"
#include "common/formats/tensors/nibble_values.h"

// One function per type, one block per call. `b` is the block, byte offsets are the layout.
//
// Every product is exact: a half has 11 significant bits, a sub-block's scale at most 7 and a
// stored number at most 7, and a float holds 24. Only the final addition or subtraction rounds, so
// neither the order of the factors nor a fused multiply-add could change a bit.
//
// Bytes are read one at a time or copied, so a block may start anywhere. The loops have constant
// trip counts and restricted pointers: GCC and clang make vector code of them at -O2.

namespace outrider {
namespace {

// Blocks of one: a plain array of 16-bit floats.

void DecodeF16(const uint8_t* __restrict b, float* __restrict y) {
  *y = Half(b);
}

void DecodeBF16(const uint8_t* __restrict b, float* __restrict y) {
  *y = Bfloat16ToFloat(U16(b));
}

// Blocks of 32. Low nibbles are the first sixteen elements, high nibbles the others.

// d half | q int8[32]
void DecodeQ8_0(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<int8_t>(b[2 + i]);
}

// d half | nibbles[16]
void DecodeQ4_0(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  for (int i = 0; i < 16; ++i) y[i] = d * ((b[2 + i] & 15) - 8);
  for (int i = 0; i < 16; ++i) y[16 + i] = d * ((b[2 + i] >> 4) - 8);
}

// d half | m half | nibbles[16]
void DecodeQ4_1(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  const float m = Half(b + 2);
  for (int i = 0; i < 16; ++i) y[i] = d * (b[4 + i] & 15) + m;
  for (int i = 0; i < 16; ++i) y[16 + i] = d * (b[4 + i] >> 4) + m;
}

// d half | fifth bits, element i in bit i of a 32-bit word | nibbles[16]
void DecodeQ5_0(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  const uint32_t fifth = U32(b + 2);
  for (int i = 0; i < 32; ++i) {
    const int low = (b[6 + i % 16] >> 4 * (i / 16)) & 15;
    const int high = static_cast<int>(fifth >> i & 1) << 4;
    y[i] = d * ((low | high) - 16);
  }
}

// d half | m half | fifth bits | nibbles[16]
void DecodeQ5_1(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  const float m = Half(b + 2);
  const uint32_t fifth = U32(b + 4);
  for (int i = 0; i < 32; ++i) {
    const int low = (b[8 + i % 16] >> 4 * (i / 16)) & 15;
    const int high = static_cast<int>(fifth >> i & 1) << 4;
    y[i] = d * (low | high) + m;
  }
}

// d half | nibbles[16]
void DecodeIQ4_NL(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  for (int i = 0; i < 16; ++i) y[i] = d * kIq4Values[b[2 + i] & 15];
  for (int i = 0; i < 16; ++i) y[16 + i] = d * kIq4Values[b[2 + i] >> 4];
}

// exponent byte e, for 2^(e - 128) | nibbles[16]. The lowest two are subnormal floats.
void DecodeMXFP4(const uint8_t* __restrict b, float* __restrict y) {
  const uint32_t e = b[0];
  const float d = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  for (int i = 0; i < 16; ++i) y[i] = d * kMxfp4Values[b[1 + i] & 15];
  for (int i = 0; i < 16; ++i) y[16 + i] = d * kMxfp4Values[b[1 + i] >> 4];
}

// Super-blocks of 256, their sub-blocks' scales quantised against the super-block's own.

// scales[16], one per 16 elements: scale in the low nibble, min in the high one | two bits[64] |
// d half | dmin half
void DecodeQ2_K(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b + 80);
  const float dmin = Half(b + 82);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * (b[j] & 15);
    const float min = dmin * (b[j] >> 4);
    const uint8_t* const bits = b + 16 + 32 * (j / 8) + 16 * (j % 2);
    const int shift = 2 * (j % 8 / 2);
    for (int i = 0; i < 16; ++i) y[16 * j + i] = scale * (bits[i] >> shift & 3) - min;
  }
}

// third bits[32], element i in bit i / 32 of byte i % 32 | two bits[64] | 6-bit scales[12] | d half
void DecodeQ3_K(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b + 108);
  const uint8_t* const scales = b + 96;
  for (int j = 0; j < 16; ++j) {
    const int low = scales[j % 8] >> 4 * (j / 8) & 15;
    const int high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
    const float scale = d * ((low | high << 4) - 32);
    const uint8_t* const third = b + 16 * (j % 2);
    const uint8_t* const bits = b + 32 + 32 * (j / 8) + 16 * (j % 2);
    const int shift = 2 * (j % 8 / 2);
    for (int i = 0; i < 16; ++i) {
      const int q = (bits[i] >> shift & 3) | (third[i] >> (j / 2) & 1) << 2;
      y[16 * j + i] = scale * (q - 4);
    }
  }
}

// The 6-bit scale and min of sub-block j, of the eight that Q4_K and Q5_K pack into twelve bytes:
//
//   byte 0-3    scale[0-3], and the top two bits of scale[4-7] above them
//   byte 4-7    min[0-3], and the top two bits of min[4-7] above them
//   byte 8-11   low nibbles: scale[4-7] below, min[4-7] above
struct ScaleMin {
  int scale;
  int min;
};

ScaleMin UnpackScaleMin(const uint8_t* scales, int j) {
  if (j < 4) return {scales[j] & 63, scales[j + 4] & 63};
  return {(scales[j + 4] & 15) | scales[j - 4] >> 6 << 4, scales[j + 4] >> 4 | scales[j] >> 6 << 4};
}

// d half | dmin half | scales and mins[12] | nibbles[128]: 32 bytes hold two sub-blocks of 32
void DecodeQ4_K(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  const float dmin = Half(b + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin packed = UnpackScaleMin(b + 4, j);
    const float scale = d * packed.scale;
    const float min = dmin * packed.min;
    const uint8_t* const nibbles = b + 16 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; ++i) y[32 * j + i] = scale * (nibbles[i] >> shift & 15) - min;
  }
}

// As Q4_K, with fifth bits[32] before the nibbles: element i in bit i / 32 of byte i % 32
void DecodeQ5_K(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  const float dmin = Half(b + 2);
  const uint8_t* const fifth = b + 16;
  for (int j = 0; j < 8; ++j) {
    const ScaleMin packed = UnpackScaleMin(b + 4, j);
    const float scale = d * packed.scale;
    const float min = dmin * packed.min;
    const uint8_t* const nibbles = b + 48 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; ++i) {
      const int q = (nibbles[i] >> shift & 15) | (fifth[i] >> j & 1) << 4;
      y[32 * j + i] = scale * q - min;
    }
  }
}

// nibbles[128] | upper two bits[64] | scales int8[16], one per 16 elements | d half
void DecodeQ6_K(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b + 208);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<int8_t>(b[192 + j]);
    const int quarter = j % 8 / 2;  // of the half block, 32 elements each
    const uint8_t* const low = b + 64 * (j / 8) + 32 * (quarter % 2) + 16 * (j % 2);
    const uint8_t* const high = b + 128 + 32 * (j / 8) + 16 * (j % 2);
    const int low_shift = 4 * (quarter / 2);
    const int high_shift = 2 * quarter;
    for (int i = 0; i < 16; ++i) {
      const int q = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
      y[16 * j + i] = scale * (q - 32);
    }
  }
}

// d half | upper bit pairs of scales half | lower nibbles of scales[4] | nibbles[128], as IQ4_NL's
void DecodeIQ4_XS(const uint8_t* __restrict b, float* __restrict y) {
  const float d = Half(b);
  const uint32_t upper = U16(b + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = b[4 + j / 2] >> 4 * (j % 2) & 15;
    const int high = static_cast<int>(upper >> 2 * j & 3);
    const float scale = d * ((low | high << 4) - 32);
    const uint8_t* const nibbles = b + 8 + 16 * j;
    for (int i = 0; i < 16; ++i) y[32 * j + i] = scale * kIq4Values[nibbles[i] & 15];
    for (int i = 0; i < 16; ++i) y[32 * j + 16 + i] = scale * kIq4Values[nibbles[i] >> 4];
  }
}

// The call of Decode is direct, so it is inlined and the loop over it made vector code.
template <void (*Decode)(const uint8_t*, float*), size_t kElements, size_t kBytes>
void EachBlock(const uint8_t* __restrict blocks, float* __restrict y, size_t elements) {
  for (size_t i = 0; i < elements / kElements; ++i) Decode(blocks + i * kBytes, y + i * kElements);
}

void CopyFloats(const uint8_t* bytes, float* y, size_t elements) {
  if (elements > 0) std::memcpy(y, bytes, elements * sizeof(float));
}

struct Decoder {
  TensorType type;
  void (*decode)(const uint8_t* blocks, float* y, size_t elements);
};

constexpr std::array kDecoders = std::to_array<Decoder>({
    {TensorType::kF32, CopyFloats},
    {TensorType::kF16, EachBlock<DecodeF16, 1, 2>},
    {TensorType::kBF16, EachBlock<DecodeBF16, 1, 2>},
    {TensorType::kQ8_0, EachBlock<DecodeQ8_0, 32, 34>},
    {TensorType::kQ4_0, EachBlock<DecodeQ4_0, 32, 18>},
    {TensorType::kQ4_1, EachBlock<DecodeQ4_1, 32, 20>},
    {TensorType::kQ5_0, EachBlock<DecodeQ5_0, 32, 22>},
    {TensorType::kQ5_1, EachBlock<DecodeQ5_1, 32, 24>},
    {TensorType::kIQ4_NL, EachBlock<DecodeIQ4_NL, 32, 18>},
    {TensorType::kMXFP4, EachBlock<DecodeMXFP4, 32, 17>},
    {TensorType::kQ2_K, EachBlock<DecodeQ2_K, 256, 84>},
    {TensorType::kQ3_K, EachBlock<DecodeQ3_K, 256, 110>},
    {TensorType::kQ4_K, EachBlock<DecodeQ4_K, 256, 144>},
    {TensorType::kQ5_K, EachBlock<DecodeQ5_K, 256, 176>},
    {TensorType::kQ6_K, EachBlock<DecodeQ6_K, 256, 210>},
    {TensorType::kIQ4_XS, EachBlock<DecodeIQ4_XS, 256, 136>},
    {TensorType::kIQ2_XXS, EachBlock<DecodeIQ2_XXS, 256, 66>},
    {TensorType::kIQ2_XS, EachBlock<DecodeIQ2_XS, 256, 74>},
    {TensorType::kIQ2_S, EachBlock<DecodeIQ2_S, 256, 82>},
    {TensorType::kIQ3_XXS, EachBlock<DecodeIQ3_XXS, 256, 98>},
    {TensorType::kIQ3_S, EachBlock<DecodeIQ3_S, 256, 110>},
    {TensorType::kIQ1_S, EachBlock<DecodeIQ1_S, 256, 50>},
    {TensorType::kIQ1_M, EachBlock<DecodeIQ1_M, 256, 56>},
    {TensorType::kTQ1_0, EachBlock<DecodeTQ1_0, 256, 54>},
    {TensorType::kTQ2_0, EachBlock<DecodeTQ2_0, 256, 66>},
});

}  // namespace

bool CanDequantize(TensorType type) {
  return std::ranges::find(kDecoders, type, &Decoder::type) != kDecoders.end();
}

absl::Status Dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
  const auto* const decoder = std::ranges::find(kDecoders, type, &Decoder::type);
  if (decoder == kDecoders.end()) {
    return Unimplemented("cannot turn ", Name(type),
                         " into floats; convert the model to one of F32 F16 BF16 Q8_0 Q4_0 Q4_1 "
                         "Q5_0 Q5_1 IQ4_NL MXFP4 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS IQ2_XXS IQ2_XS "
                         "IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M TQ1_0 TQ2_0");
  }
  OUTRIDER_CHECK(blocks.size() == RowBytes(type, out.size()), "blocks and floats are as many");
  decoder->decode(reinterpret_cast<const uint8_t*>(blocks.data()), out.data(), out.size());
  return absl::OkStatus();
}

}  // namespace outrider
