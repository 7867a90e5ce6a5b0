// Rope of one head, both styles (NUMERICS.md, section 6), and the narrowing that follows it.
#pragma once

#include <cstdint>

#include "common/kernels/rows/rows_parts.h"

namespace outrider {
namespace {

// Lanes, or single floats. Not fused: each product is rounded, as the contract has it.
template <class Number>
inline void RotatePair(Number& x0, Number& x1, Number c, Number s) {
  const Number y0 = x0 * c - x1 * s;
  const Number y1 = x0 * s + x1 * c;
  x0 = y0;
  x1 = y1;
}

template <class Lanes>
void RopeInterleavedRow(float* head, const float* cos, const float* sin, uint32_t pair_count) {
  uint32_t i = 0;
  for (; i + 16 <= pair_count; i += 16) {
    float* pairs = head + 2 * i;
    Lanes a = Lanes::Load(pairs), b = Lanes::Load(pairs + 16);
    Lanes x0 = Lanes::Zero(), x1 = Lanes::Zero();
    Lanes::Unzip(a, b, x0, x1);
    RotatePair(x0, x1, Lanes::Load(cos + i), Lanes::Load(sin + i));
    Lanes::Zip(x0, x1, a, b);
    a.Store(pairs);
    b.Store(pairs + 16);
  }
  for (; i < pair_count; ++i) RotatePair(head[2 * i], head[2 * i + 1], cos[i], sin[i]);
}

template <class Lanes>
void RopeHalvesRow(float* head, const float* cos, const float* sin, uint32_t pair_count) {
  OverRow<Lanes>(pair_count, [&](auto part) {
    Lanes x0 = part.Load(head), x1 = part.Load(head + pair_count);
    RotatePair(x0, x1, part.Load(cos), part.Load(sin));
    part.Store(x0, head);
    part.Store(x1, head + pair_count);
  });
}

template <class Lanes>
void ToHalfRow(const float* x, uint32_t count, uint16_t* out) {
  OverRow<Lanes>(count, [&](auto part) { part.StoreHalves(part.Load(x), out); });
}

}  // namespace
}  // namespace outrider
