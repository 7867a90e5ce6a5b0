#include "common/tokens/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using Block = std::array<uint32_t, 4>;

// The vectors that Random123 publishes (kat_vectors, "philox4x32 10").
TEST(Noise, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The layout is a contract between device and server, so it is spelled out here once more.
TEST(Noise, IsDrawnWhereTheHeaderSays) {
  const uint64_t seed = 0x1122334455667788;
  const Noise noise(seed, /*sample=*/7, /*position=*/99);
  for (const TokenId token : {0, 1, 2, 3, 4, 5, 127'999, 2'147'483'647}) {
    const uint32_t id = static_cast<uint32_t>(token);
    const Block words = Philox4x32({id / 4, 99, 7, 0}, {0x55667788, 0x11223344});
    const double u = (words[id % 4] + 0.5) / 4294967296.0;
    EXPECT_EQ(noise.UniformOf(token), u) << token;
    EXPECT_NEAR(noise.ExponentialOf(token), -std::log1p(-u), 1e-14) << token;
  }
}

TEST(Noise, TheSmallestAndLargestDrawsAreFiniteAndPositive) {
  EXPECT_EQ(Noise::Uniform(0), Noise::kUniformMin);
  EXPECT_EQ(Noise::Uniform(~0u), 1 - 0x1p-33);
  EXPECT_GE(Noise::Exponential(Noise::Uniform(0)), Noise::kUniformMin);
  EXPECT_DOUBLE_EQ(Noise::Exponential(Noise::Uniform(~0u)), 33 * std::log(2.0));
}

// What the race's filter rests on, where rounding could break it: small u.
TEST(Noise, AnExponentialIsAtLeastItsUniform) {
  for (uint64_t word = 0; word <= ~0u; word += 1 + word / 64) {
    const double u = Noise::Uniform(static_cast<uint32_t>(word));
    EXPECT_GE(Noise::Exponential(u), u);
  }
}

// With n draws of an Exp(1): the mean has a standard error of 1/sqrt(n), the mean of (E - 1)^2 one
// of sqrt(8/n) (its fourth central moment is 9). Kolmogorov's distance exceeds l/sqrt(n) with
// probability 2 exp(-2 l^2). Bounds for one false alarm in a million, should the seed ever change.
TEST(Noise, TenMillionDrawsAreExponential) {
  constexpr uint32_t kPositions = 100;
  constexpr uint32_t kBlocks = 25'000;
  constexpr double kDraws = 4.0 * kPositions * kBlocks;
  constexpr size_t kBins = 4096;
  std::vector<uint32_t> bins(kBins, 0);
  double sum = 0;
  double squares = 0;
  double least = 100;
  double most = 0;
  for (uint32_t position = 0; position < kPositions; ++position) {
    const Noise noise(/*seed=*/42, /*sample=*/0, position);
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const Block words = noise.Words(block);
      for (const uint32_t word : words) {
        const double e = Noise::Exponential(Noise::Uniform(word));
        sum += e;
        squares += (e - 1) * (e - 1);
        least = e < least ? e : least;
        most = e > most ? e : most;
        const double below = -std::expm1(-e);  // the distribution function, at E
        ++bins[std::min(kBins - 1, static_cast<size_t>(below * kBins))];
      }
    }
  }
  EXPECT_GE(least, 0x1p-33);
  EXPECT_LE(most, 22.9);
  EXPECT_LE(std::fabs(sum / kDraws - 1), 4.9 / std::sqrt(kDraws));
  EXPECT_LE(std::fabs(squares / kDraws - 1), 4.9 * std::sqrt(8 / kDraws));
  double distance = 0;
  double seen = 0;
  for (size_t bin = 0; bin < kBins; ++bin) {
    seen += bins[bin];
    distance = std::max(distance, std::fabs(seen / kDraws - static_cast<double>(bin + 1) / kBins));
  }
  EXPECT_LE(distance, 2.7 / std::sqrt(kDraws));
}

// Neighbours in every coordinate are uncorrelated: n products of independent (E - 1) have mean 0
// and standard error 1/sqrt(n).
TEST(Noise, SeedsSamplesPositionsAndTokensAreIndependent) {
  constexpr uint32_t kDraws = 200'000;
  std::array<double, 4> products = {};
  for (uint32_t i = 0; i < kDraws; ++i) {
    const auto draw = [](uint64_t seed, uint32_t sample, uint32_t position, TokenId token) {
      return Noise(seed, sample, position).ExponentialOf(token) - 1;
    };
    const double here = draw(1, 0, i, 5);
    products[0] += here * draw(2, 0, i, 5);
    products[1] += here * draw(1, 1, i, 5);
    products[2] += here * draw(1, 0, i + 1, 5);
    products[3] += here * draw(1, 0, i, 6);
  }
  for (const double product : products) {
    EXPECT_LE(std::fabs(product / kDraws), 4.9 / std::sqrt(kDraws));
  }
}

}  // namespace
}  // namespace outrider
