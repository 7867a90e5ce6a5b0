// Super-blocks of 256 floats to Q4_K, Q5_K, Q6_K and IQ4_XS, and blocks of 32 to IQ4_NL.
// dequantize.cc draws the layouts; what takes thought is choosing the scales, and quantize_k.cc
// tells how.
#pragma once

#include <cstdint>

namespace outrider {

// `x` are finite floats of magnitude at most the limit of their type, `block` is the type's size.
// Beyond the limit a scale would not fit into a half.
inline constexpr float kLargestQ4_K = 63 * 65504.0f;  // its minimum is 63 steps at most; Q5_K too
inline constexpr float kLargestQ6_K = 32 * 128 * 65504.0f;  // -32 times the scale -128
inline constexpr float kLargestIQ4_NL = 127 * 65504.0f;
inline constexpr float kLargestIQ4_XS = 32 * 127 * 65504.0f;  // -127 times the scale -32
void QuantizeQ4_K(const float* x, uint8_t* block);
void QuantizeQ5_K(const float* x, uint8_t* block);
void QuantizeQ6_K(const float* x, uint8_t* block);
void QuantizeIQ4_NL(const float* x, uint8_t* block);
void QuantizeIQ4_XS(const float* x, uint8_t* block);

}  // namespace outrider
