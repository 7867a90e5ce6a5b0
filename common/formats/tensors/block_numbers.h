// Numbers within a block of a file, which begins at any byte.
#pragma once

#include <cstdint>

#include "common/formats/tensors/half.h"

namespace outrider {

inline uint16_t U16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

inline uint32_t U32(const uint8_t* bytes) {
  return U16(bytes) | uint32_t{U16(bytes + 2)} << 16;
}

inline float Half(const uint8_t* bytes) {
  return HalfToFloat(U16(bytes));
}

}  // namespace outrider
