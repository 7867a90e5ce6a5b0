// Norms and the residual sum (NUMERICS.md, section 6). One chain of additions through sixteen lanes
// is bound by the latency of an fma, four cycles for 64 bytes; a norm is still a hundredth of the
// smallest product beside it.
#pragma once

#include <cstdint>

#include "common/kernels/kernels.h"
#include "common/kernels/rows/rows_parts.h"

namespace outrider {
namespace {

template <class Lanes>
void RmsNormRow(const float* x, const float* weight, float epsilon, uint32_t count, float* out) {
  Lanes squares = Lanes::Zero();
  OverRow<Lanes>(count, [&](auto part) {
    const Lanes v = part.Load(x);
    squares = Fma(v, v, squares);
  });
  const float mean = squares.Sum() / static_cast<float>(count);
  const Lanes r = Lanes::Of(1.0f / __builtin_sqrtf(mean + epsilon));
  OverRow<Lanes>(count,
                 [&](auto part) { part.Store((part.Load(x) * r) * part.Load(weight), out); });
}

template <class Lanes>
void LayerNormRow(const float* x, const float* weight, const float* bias, float epsilon,
                  uint32_t count, float* out) {
  Lanes sum = Lanes::Zero();
  OverRow<Lanes>(count, [&](auto part) { sum = sum + part.Load(x); });
  const float mean = sum.Sum() / static_cast<float>(count);
  Lanes squares = Lanes::Zero();
  OverRow<Lanes>(count, [&](auto part) {
    const Lanes centred = part.Load(x) - part.Fill(mean);
    squares = Fma(centred, centred, squares);
  });
  const float variance = squares.Sum() / static_cast<float>(count);
  const Lanes r = Lanes::Of(1.0f / __builtin_sqrtf(variance + epsilon));
  OverRow<Lanes>(count, [&](auto part) {
    const Lanes centred = part.Load(x) - part.Fill(mean);
    part.Store(Fma(centred * r, part.Load(weight), part.Load(bias)), out);
  });
}

template <class Lanes>
void AddRow(float* x, const float* y, uint32_t count) {
  OverRow<Lanes>(count, [&](auto part) { part.Store(part.Load(x) + part.Load(y), x); });
}

template <class Lanes>
void WeightedSumOfRows(const WeightedRow* terms, uint32_t term_count, uint32_t count, float* out) {
  OverRow<Lanes>(count, [&](auto part) {
    Lanes sum = part.Load(terms[0].row) * Lanes::Of(terms[0].weight);
    for (uint32_t t = 1; t < term_count; ++t) {
      sum = sum + part.Load(terms[t].row) * Lanes::Of(terms[t].weight);
    }
    part.Store(sum, out);
  });
}

}  // namespace
}  // namespace outrider
