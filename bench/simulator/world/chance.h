// Repeatable chance: the same seed asked the same question gives the same answer, in any order of
// asking.
//
//   Draw(seed, node.hash).Uniform() < 0.7     // is this draft right? The same for ever
//
// A Draw is a small generator (SplitMix64) as well, for those who need a series.
#pragma once

#include <cmath>
#include <cstdint>

namespace outrider {

inline uint64_t MixBits(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  Draw(uint64_t seed, uint64_t question) : state_(MixBits(seed) ^ question) {}

  uint64_t Bits() {
    const uint64_t bits = MixBits(state_);
    state_ += 0x9e3779b97f4a7c15;
    return bits;
  }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  // In [0, count).
  uint64_t Below(uint64_t count) { return Bits() % count; }
  bool Happens(double probability) { return Uniform() < probability; }
  // Mean 1.
  double Exponential() { return -std::log1p(-Uniform()); }

 private:
  uint64_t state_;
};

}  // namespace outrider
