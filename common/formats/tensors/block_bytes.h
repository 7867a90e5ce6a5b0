// What blocks of quantised weights are read by: little-endian numbers that stand anywhere.
#pragma once

#include <cstdint>

#include "common/formats/tensors/half.h"

namespace outrider {

inline uint16_t BlockU16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

inline uint32_t BlockU32(const uint8_t* bytes) {
  return BlockU16(bytes) | uint32_t{BlockU16(bytes + 2)} << 16;
}

inline float BlockHalf(const uint8_t* bytes) {
  return HalfToFloat(BlockU16(bytes));
}

}  // namespace outrider
