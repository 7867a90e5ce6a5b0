#include "common/tokens/noise.h"

#include "common/base/portable_math.h"

namespace outrider {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * counter[0];
    const uint64_t odd = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(even)};
    key[0] += 0x9E3779B9;  // the golden ratio, and the square root of 3 less 1
    key[1] += 0xBB67AE85;
  }
  return counter;
}

double Noise::Exponential(double uniform) {
  return -portable::Log1p(-uniform);
}

}  // namespace outrider
