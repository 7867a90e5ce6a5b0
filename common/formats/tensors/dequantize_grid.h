// Blocks whose elements are vectors of a code book (IQ2, IQ3, IQ1), and ternary ones (TQ): one
// function per type, a block of 256 per call. Part of dequantize.cc, apart for its size.
#pragma once

#include <cstdint>

namespace outrider {

void DecodeIQ2_XXS(const uint8_t* block, float* y);
void DecodeIQ2_XS(const uint8_t* block, float* y);
void DecodeIQ2_S(const uint8_t* block, float* y);
void DecodeIQ3_XXS(const uint8_t* block, float* y);
void DecodeIQ3_S(const uint8_t* block, float* y);
void DecodeIQ1_S(const uint8_t* block, float* y);
void DecodeIQ1_M(const uint8_t* block, float* y);
void DecodeTQ1_0(const uint8_t* block, float* y);
void DecodeTQ2_0(const uint8_t* block, float* y);

}  // namespace outrider
