// The randomness of a sampled text, known to everyone who knows its seed.
//
// Device and server, draft and target, draw the same noise for the same token at the same position,
// whatever they computed before: there is no generator whose state could differ, only a function.
//
//   (seed, sample, position, token) --Philox4x32-10--> word
//   u = (word + 1/2) * 2^-32          uniform
//   E = -log1p(-u)                    exponential, mean 1
//
// Philox (Salmon, Moraes, Dror and Shaw, SC11) turns a 128-bit counter and a 64-bit key into 128
// random bits, four words, which serve four neighbouring tokens:
//
//   key      seed, low word first
//   counter  token / 4, position, sample, 0
//   word     token % 4
//
// The half keeps u off 0 and 1, so E lies in [2^-33, 33 ln 2]. A double holds u exactly; a float
// would round the largest to 1, and E to infinity. The layout is part of the numeric contract:
// changing it changes every sampled text.
#pragma once

#include <array>
#include <cstdint>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// Ten rounds. The published test vectors of Random123 hold.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class Noise {
 public:
  static constexpr uint32_t kTokensPerBlock = 4;
  static constexpr double kUniformMin = 0x1p-33;

  // `sample` tells several texts of one seed apart.
  Noise(uint64_t seed, uint32_t sample, uint32_t position)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        sample_(sample),
        position_(position) {}

  // The words of tokens 4 * block to 4 * block + 3.
  std::array<uint32_t, kTokensPerBlock> Words(uint32_t block) const {
    return Philox4x32({block, position_, sample_, 0}, key_);
  }

  // Strictly between 0 and 1.
  static double Uniform(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

  // -log1p(-u): at least u, since the logarithm is concave.
  static double Exponential(double uniform);

  uint32_t WordOf(TokenId token) const {
    const uint32_t id = static_cast<uint32_t>(token);
    return Words(id / kTokensPerBlock)[id % kTokensPerBlock];
  }
  double UniformOf(TokenId token) const { return Uniform(WordOf(token)); }
  double ExponentialOf(TokenId token) const { return Exponential(UniformOf(token)); }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t sample_;
  uint32_t position_;
};

}  // namespace outrider
