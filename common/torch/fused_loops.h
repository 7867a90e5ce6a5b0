// The elementwise work of a training step on the CPU, each in one pass over memory where a chain of
// tensor operations takes three to ten: what fused.h hands to autograd. No libtorch here.
//
// Rows are contiguous float32. Results are functions of the arguments alone, and differ in the last
// bits from one instruction set to another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

// y = x * r * weight, r = 1 / sqrt(mean(x^2) + epsilon); one r a row is kept.
void RmsForward(const float* x, const float* weight, float epsilon, size_t rows, size_t length,
                float* y, float* r);
// dx is written, dweight added to.
void RmsBackward(const float* x, const float* weight, const float* r, const float* dy, size_t rows,
                 size_t length, float* dx, float* dweight);

// y = silu(gate) * up
void SiluGateForward(const float* gate, const float* up, size_t count, float* y);
void SiluGateBackward(const float* gate, const float* up, const float* dy, size_t count,
                      float* dgate, float* dup);

// Turns each pair (2i, 2i + 1) of `heads` vectors of 2 * pairs by one row's angles; `sign` is -1 to
// turn back, which is the gradient.
void TurnPairs(const float* x, const float* cos, const float* sin, float sign, size_t heads,
               size_t pairs, float* y);

// Softmax of scores[begin, end), in place; the rest of the row becomes zero.
void SoftmaxRow(float* scores, size_t begin, size_t end, size_t length);
// dscores = p * (dp - sum(p dp)) * scale, over dp.
void SoftmaxBackwardRow(const float* p, float* dp, size_t length, float scale);

// KL(p || q) of p = softmax(wanted * scale), which is written, and q = softmax(said * scale).
// `said` becomes the gradient for itself.
float DivergenceRow(const float* wanted, float scale, size_t length, float* said, float* p);

}  // namespace outrider
