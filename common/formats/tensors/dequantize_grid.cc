#include "common/formats/tensors/dequantize_grid.h"

#include <bit>

#include "common/formats/tensors/block_numbers.h"
#include "common/formats/tensors/grid_vectors.h"

// As in dequantize.cc: `b` is the block, byte offsets are the layout, every product is exact.

namespace outrider {
namespace {

// A block spells seven of eight signs; the eighth makes their number even.
uint32_t EightSigns(uint32_t seven) {
  return seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7;
}

constexpr float kIq2Values[] = {8, 25, 43};
constexpr float kIq3XxsValues[] = {4, 12, 20, 28, 36, 44, 52, 62};

// Eight elements of IQ2's books; bit i of `signs`: element i is negative.
void Vector2(uint16_t vector, uint32_t signs, float scale, float* y) {
  for (int i = 0; i < 8; ++i) {
    const float value = scale * kIq2Values[vector >> 2 * i & 3];
    y[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

void Vector3Xxs(uint16_t vector, uint32_t signs, float scale, float* y) {
  for (int i = 0; i < 4; ++i) {
    const float value = scale * kIq3XxsValues[vector >> 3 * i & 7];
    y[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

void Vector3S(uint16_t vector, uint32_t signs, float scale, float* y) {
  for (int i = 0; i < 4; ++i) {
    const float value = scale * static_cast<float>(2 * (vector >> 3 * i & 7) + 1);
    y[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

// Eight elements of IQ1's book, all of them moved by an eighth.
void Vector1(uint16_t vector, float moved, float scale, float* y) {
  for (int i = 0; i < 8; ++i) {
    y[i] = scale * (static_cast<float>((vector >> 2 * i & 3) - 1) + moved);
  }
}

constexpr float kEighth = 0.125f;

}  // namespace

// d half | for each 32 elements: vectors[4], then a word of four times seven signs and a scale on
// top
void DecodeIQ2_XXS(const uint8_t* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 8; ++j) {
    const uint8_t* const vectors = b + 2 + 8 * j;
    const uint32_t word = U32(vectors + 4);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k) {
      const uint32_t signs = EightSigns(word >> 7 * k & 127);
      Vector2(kIq2XxsGrid[vectors[k]], signs, scale, y + 32 * j + 8 * k);
    }
  }
}

// d half | 32 words: nine bits of vector, seven signs | 4-bit scales[8], one per 16 elements
void DecodeIQ2_XS(const uint8_t* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 32; ++j) {
    const uint32_t word = U16(b + 2 + 2 * j);
    const int bits = b[66 + j / 4] >> 4 * (j / 2 % 2) & 15;
    const float scale = d * (0.5f + static_cast<float>(bits)) * 0.25f;
    Vector2(kIq2XsGrid[word & 511], EightSigns(word >> 9), scale, y + 8 * j);
  }
}

// d half | low bytes of vectors[32] | signs[32] | upper bit pairs of vectors[8] | 4-bit scales[8]
void DecodeIQ2_S(const uint8_t* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 32; ++j) {
    const int high = b[66 + j / 4] >> 2 * (j % 4) & 3;
    const int bits = b[74 + j / 4] >> 4 * (j / 2 % 2) & 15;
    const float scale = d * (0.5f + static_cast<float>(bits)) * 0.25f;
    Vector2(kIq2SGrid[b[2 + j] | high << 8], b[34 + j], scale, y + 8 * j);
  }
}

// d half | vectors[64] | for each 32 elements a word as IQ2_XXS's
void DecodeIQ3_XXS(const uint8_t* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 8; ++j) {
    const uint32_t word = U32(b + 66 + 4 * j);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    for (int k = 0; k < 8; ++k) {
      const uint32_t signs = EightSigns(word >> 7 * (k / 2) & 127) >> 4 * (k % 2);
      Vector3Xxs(kIq3XxsGrid[b[2 + 8 * j + k]], signs, scale, y + 32 * j + 4 * k);
    }
  }
}

// d half | low bytes of vectors[64] | ninth bits[8] | signs[32] | 4-bit scales[4], one per 32
// elements
void DecodeIQ3_S(const uint8_t* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 64; ++j) {
    const int high = b[66 + j / 8] >> j % 8 & 1;
    const uint32_t signs = static_cast<uint32_t>(b[74 + j / 2] >> 4 * (j % 2));
    const int bits = b[106 + j / 16] >> 4 * (j / 8 % 2) & 15;
    const float scale = d * static_cast<float>(1 + 2 * bits);
    Vector3S(kIq3SGrid[b[2 + j] | high << 8], signs, scale, y + 4 * j);
  }
}

// d half | low bytes of vectors[32] | for each 32 elements a word: four times three upper bits, the
// scale, and on top which way they are moved
void DecodeIQ1_S(const uint8_t* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 32; ++j) {
    const int word = U16(b + 34 + 2 * (j / 4));
    const int high = word >> 3 * (j % 4) & 7;
    const float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
    const float moved = (word & 0x8000) != 0 ? -kEighth : kEighth;
    Vector1(kIq1Grid[b[2 + j] | high << 8], moved, scale, y + 8 * j);
  }
}

// low bytes of vectors[32] | for each vector a nibble: three upper bits, and which way it is moved
// | words[4]: four times a 3-bit scale of 16 elements, and on top a quarter of d
void DecodeIQ1_M(const uint8_t* b, float* y) {
  const uint8_t* const words = b + 48;
  uint32_t d_bits = 0;
  for (int i = 0; i < 4; ++i) d_bits |= static_cast<uint32_t>(U16(words + 2 * i) >> 12) << 4 * i;
  const float d = HalfToFloat(static_cast<uint16_t>(d_bits));
  for (int j = 0; j < 32; ++j) {
    const int nibble = b[32 + j / 2] >> 4 * (j % 2) & 15;
    const int bits = U16(words + 2 * (j / 8)) >> 3 * (j / 2 % 4) & 7;
    const float scale = d * static_cast<float>(2 * bits + 1);
    const float moved = (nibble & 8) != 0 ? -kEighth : kEighth;
    Vector1(kIq1Grid[b[j] | (nibble & 7) << 8], moved, scale, y + 8 * j);
  }
}

// Bytes of five trits each, [32] and [16], then [4] of four | d half. A byte is the trits' number
// in base 3, stretched to 256: times three, the highest trit is what runs over.
void DecodeTQ1_0(const uint8_t* b, float* y) {
  const float d = Half(b + 52);
  const auto decode = [&](const uint8_t* bytes, int count, int trits) {
    uint8_t power = 1;
    for (int n = 0; n < trits; ++n, power = static_cast<uint8_t>(3 * power)) {
      for (int i = 0; i < count; ++i) {
        const auto shifted = static_cast<uint8_t>(bytes[i] * power);
        *y++ = d * static_cast<float>((shifted * 3 >> 8) - 1);
      }
    }
  };
  decode(b, 32, 5);
  decode(b + 32, 16, 5);
  decode(b + 48, 4, 4);
}

// bit pairs[64]: element i of 128 in bits 2 (i / 32) of byte i % 32 | d half
void DecodeTQ2_0(const uint8_t* b, float* y) {
  const float d = Half(b + 64);
  for (int i = 0; i < 256; ++i) {
    const int pair = b[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
    y[i] = d * static_cast<float>(pair - 1);
  }
}

}  // namespace outrider
