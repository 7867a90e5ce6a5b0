// exp, tanh, the activations and the soft cap (NUMERICS.md, section 5).
#pragma once

#include <cstdint>

#include "common/kernels/rows/rows_parts.h"

namespace outrider {
namespace {

constexpr float kExpMax = 0x1.62e42ep+6f;   // beyond it the result is infinite
constexpr float kExpMin = -0x1.5d589ep+6f;  // below it, smaller than any normal number

constexpr float kGateMax = 7.0f;  // of a clamped gate

template <class Lanes>
inline Lanes Exp(Lanes x) {
  const Lanes shift = Lanes::Of(0x1.8p+23f);
  const Lanes shifted = Fma(x, Lanes::Of(0x1.715476p+0f), shift);
  const Lanes n = shifted - shift;
  Lanes r = Fma(n, Lanes::Of(-0x1.62e43p-1f), x);
  r = Fma(n, Lanes::Of(0x1.05c61p-29f), r);
  Lanes p = Lanes::Of(0x1.6a241ap-10f);
  p = Fma(p, r, Lanes::Of(0x1.1239f2p-7f));
  p = Fma(p, r, Lanes::Of(0x1.5558f2p-5f));
  p = Fma(p, r, Lanes::Of(0x1.555492p-3f));
  p = Fma(p, r, Lanes::Of(0x1.fffffcp-2f));
  p = Fma(p, r, Lanes::Of(1.0f));
  p = Fma(p, r, Lanes::Of(1.0f));
  // The low bits of `shifted` are the integer n.
  const Lanes inside =
      Lanes::Where(x < Lanes::Of(kExpMin), Lanes::Zero(), p.TimesTwoToThe(shifted));
  const Lanes above = x + Lanes::Of(__builtin_inff());  // infinity, or NaN for NaN
  return Lanes::Where(x <= Lanes::Of(kExpMax), inside, above);
}

template <class Lanes>
inline Lanes SigmoidProduct(Lanes x, Lanes z) {
  const Lanes quotient = x / (Lanes::Of(1.0f) + Exp(z));
  return Lanes::Where(Lanes::Of(kExpMax) < z, Lanes::Of(-0.0f), quotient);
}

template <class Lanes>
inline Lanes Silu(Lanes x) {
  return SigmoidProduct(x, x * Lanes::Of(-1.0f));
}

template <class Lanes>
inline Lanes GeluTanh(Lanes x) {
  return SigmoidProduct(x, x * Fma(x * x, Lanes::Of(-0x1.2444f2p-4f), Lanes::Of(-0x1.988454p+0f)));
}

template <class Lanes>
inline Lanes ClampedSilu(Lanes x) {
  const Lanes limit = Lanes::Of(kGateMax);
  x = Lanes::Where(limit < x, limit, x);
  return SigmoidProduct(x, x * Lanes::Of(-1.702f));
}

template <class Lanes>
inline Lanes ClampedUp(Lanes x) {
  const Lanes low = Lanes::Of(-kGateMax), high = Lanes::Of(kGateMax);
  x = Lanes::Where(high < x, high, x);
  return Lanes::Where(x < low, low, x) + Lanes::Of(1.0f);
}

template <class Lanes>
inline Lanes Tanh(Lanes x) {
  const Lanes square = x * x;
  Lanes p = Lanes::Of(-0x1.9017fep-8f);
  p = Fma(p, square, Lanes::Of(0x1.581fa6p-6f));
  p = Fma(p, square, Lanes::Of(-0x1.b928ep-5f));
  p = Fma(p, square, Lanes::Of(0x1.110e2ep-3f));
  p = Fma(p, square, Lanes::Of(-0x1.555552p-2f));
  const Lanes small = Fma(x * square, p, x);
  const Lanes large = Lanes::Of(1.0f) - Lanes::Of(2.0f) / (Lanes::Of(1.0f) + Exp(x + x));
  return Lanes::Where(square < Lanes::Of(0.390625f), small, large);
}

template <class Lanes>
inline Lanes SoftCap(Lanes x, Lanes cap) {
  return cap * Tanh(x / cap);
}

template <class Lanes>
void ExpRow(const float* x, uint32_t count, float* out) {
  OverRow<Lanes>(count, [&](auto part) { part.Store(Exp(part.Load(x)), out); });
}

template <class Lanes>
void SiluGateRow(const float* gate, const float* up, uint32_t count, float* out) {
  OverRow<Lanes>(count, [&](auto part) { part.Store(Silu(part.Load(gate)) * part.Load(up), out); });
}

template <class Lanes>
void GeluTanhGateRow(const float* gate, const float* up, uint32_t count, float* out) {
  OverRow<Lanes>(count,
                 [&](auto part) { part.Store(GeluTanh(part.Load(gate)) * part.Load(up), out); });
}

template <class Lanes>
void GeluTanhRow(const float* x, uint32_t count, float* out) {
  OverRow<Lanes>(count, [&](auto part) { part.Store(GeluTanh(part.Load(x)), out); });
}

template <class Lanes>
void ClampedSiluGateRow(const float* gate, const float* up, uint32_t count, float* out) {
  OverRow<Lanes>(count, [&](auto part) {
    part.Store(ClampedSilu(part.Load(gate)) * ClampedUp(part.Load(up)), out);
  });
}

template <class Lanes>
void SoftCapRow(const float* x, float cap, uint32_t count, float* out) {
  OverRow<Lanes>(count, [&](auto part) { part.Store(SoftCap(part.Load(x), Lanes::Of(cap)), out); });
}

}  // namespace
}  // namespace outrider
