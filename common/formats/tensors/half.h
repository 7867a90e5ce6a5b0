// The two 16-bit floats, in plain arithmetic: the same bits on every machine, whatever instructions
// it has and whether or not it flushes subnormal floats to zero.
//
//            sign  exponent  fraction
//   half        1         5        10    IEEE 754 binary16; largest 65504, smallest 2^-24
//   bfloat16    1         8         7    the upper half of a float
//
// Narrowing rounds to nearest, ties to even; what is beyond the largest becomes infinity. A NaN
// stays one: it keeps its sign and the payload bits that fit, and comes back quiet.
// Straight-line code: a loop over any of these becomes vector instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace outrider {

inline constexpr float kLargestHalf = 65504.0f;
inline constexpr uint16_t kInfiniteHalf = 0x7c00;

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  // A subnormal half is a whole number of 2^-24, and a normal float.
  const float steps = static_cast<float>(static_cast<int32_t>(magnitude));
  const uint32_t subnormal = std::bit_cast<uint32_t>(steps * 0x1p-24f);
  const uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;  // infinity, NaN
  const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
  return std::bit_cast<float>(sign | (magnitude < 0x7c00u ? finite : special));
}

inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;

  // Normal: rebias, then add just under half of the last place that stays, or exactly half when
  // that place is odd. A carry moves on to the exponent, and from the largest half to infinity.
  const uint32_t odd = (magnitude >> 13) & 1;
  const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0x0fffu + odd) >> 13;

  // Subnormal, below 2^-14: in the sum with 0.5 the last place is worth 2^-24, as it is in the
  // half.
  const float sum = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);

  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const uint32_t number = magnitude < 0x47800000u ? finite : kInfiniteHalf;
  return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? nan : number));
}

inline float Bfloat16ToFloat(uint16_t bfloat16) {
  return std::bit_cast<float>(uint32_t{bfloat16} << 16);
}

inline uint16_t FloatToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t odd = (bits >> 16) & 1;
  const uint32_t number = (bits + 0x7fffu + odd) >> 16;
  const uint32_t nan = (bits >> 16) | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : number);
}

}  // namespace outrider
