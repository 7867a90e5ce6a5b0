// Super-blocks of 256 floats to Q4_K and Q6_K. dequantize.cc draws the layouts; what takes thought
// is choosing the scales, and quantize_k.cc tells how.
#pragma once

#include <cstdint>

namespace outrider {

// `x` are 256 finite floats of magnitude at most the limit of their type, `block` is 144 or 210
// bytes. Beyond the limit a scale would not fit into a half.
inline constexpr float kLargestQ4_K = 63 * 65504.0f;        // its minimum is 63 steps at most
inline constexpr float kLargestQ6_K = 32 * 128 * 65504.0f;  // -32 times the scale -128
void QuantizeQ4_K(const float* x, uint8_t* block);
void QuantizeQ6_K(const float* x, uint8_t* block);

}  // namespace outrider
