// A row as vectors see it: whole parts of sixteen elements, and what is left. One body serves both:
//
//   OverRow<Lanes>(count, [&](auto part) { part.Store(part.Load(x) + part.Load(y), x); });
//
// Lanes beyond the row's end load +0, so that they add nothing to a sum.
#pragma once

#include <cstdint>

namespace outrider {
namespace {

template <class Lanes>
struct WholePart {
  uint32_t at;
  Lanes Load(const float* row) const { return Lanes::Load(row + at); }
  Lanes LoadHalves(const uint16_t* row) const { return Lanes::LoadHalves(row + at); }
  void Store(Lanes x, float* row) const { x.Store(row + at); }
  void StoreHalves(Lanes x, uint16_t* row) const { x.StoreHalves(row + at); }
  Lanes Fill(float x) const { return Lanes::Of(x); }
};

template <class Lanes>
struct LastPart {
  uint32_t at;
  uint32_t count;
  Lanes Load(const float* row) const { return Lanes::LoadFirst(count, row + at); }
  Lanes LoadHalves(const uint16_t* row) const { return Lanes::LoadFirstHalves(count, row + at); }
  void Store(Lanes x, float* row) const { x.StoreFirst(count, row + at); }
  void StoreHalves(Lanes x, uint16_t* row) const { x.StoreFirstHalves(count, row + at); }
  Lanes Fill(float x) const {
    float lanes[16];
    Lanes::Of(x).Store(lanes);
    return Lanes::LoadFirst(count, lanes);
  }
};

template <class Lanes, class Body>
inline void OverRow(uint32_t count, Body body) {
  uint32_t i = 0;
  for (; i + 16 <= count; i += 16) body(WholePart<Lanes>{i});
  if (i < count) body(LastPart<Lanes>{i, count - i});
}

}  // namespace
}  // namespace outrider
