#include "common/tokens/race.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/tokens/maximum.h"
#include "gtest/gtest.h"
#include "tests/tokens/plain_choice.h"

namespace outrider {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

TokenId Race(const std::vector<float>& logits, const SamplingOptions& options, uint32_t position) {
  return RaceOfAll(logits, FindMaximum(logits), options.temperature, options.min_p,
                   Noise(options.seed, options.sample, position));
}

struct Shape {
  const char* name;
  std::vector<float> logits;
};

// Distributions that try the filter in different ways. The sizes are no multiples of a group.
std::vector<Shape> Shapes() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<Shape> shapes = {{"equal", std::vector<float>(307, 1.5f)}};
  Shape flat = {"flat", std::vector<float>(203)};
  for (float& z : flat.logits) z = 0.01f * normal(random);
  Shape wide = {"wide", std::vector<float>(203)};
  for (float& z : wide.logits) z = 5 * normal(random);
  Shape peaked = {"peaked", std::vector<float>(203)};
  for (float& z : peaked.logits) z = normal(random) - 20;
  peaked.logits[100] = 3;
  peaked.logits[7] = 2.5;
  Shape holes = {"holes", std::vector<float>(203)};
  for (float& z : holes.logits) z = random() % 2 == 0 ? kImpossible : 2 * normal(random);
  Shape large = {"large", std::vector<float>(203)};  // few floats between the logits
  for (float& z : large.logits) z = 1e6f + std::round(4 * normal(random)) * 0.0625f;
  Shape extreme = {"extreme", std::vector<float>(67)};
  for (float& z : extreme.logits) z = (random() % 3 == 0 ? 3e38f : -3e38f);
  Shape lonely = {"lonely", std::vector<float>(67, kImpossible)};
  lonely.logits[66] = -1000;
  for (Shape* shape : {&flat, &wide, &peaked, &holes, &large, &extreme, &lonely}) {
    shapes.push_back(std::move(*shape));
  }
  return shapes;
}

// The filter may skip what cannot win and nothing else: some 8 million draws, each compared with
// the definition.
TEST(Race, TheFilterNeverChangesTheWinner) {
  for (const Shape& shape : Shapes()) {
    for (const double temperature : {1e-4, 0.3, 1.0, 1.7, 100.0}) {
      SamplingOptions options;
      options.temperature = temperature;
      options.seed = 11;
      for (uint32_t position = 0; position < 1000; ++position) {
        options.min_p = position % 4 == 0 ? 0.05 : 0;
        ASSERT_EQ(Race(shape.logits, options, position),
                  PlainChoice(shape.logits, options, position))
            << shape.name << " at temperature " << temperature << ", position " << position;
      }
    }
  }
}

// The smallest noise there is, where a logit alone comes closest to telling that a token has lost.
// Of four thousand million words one is 0; this one was searched for.
TEST(Race, TheSmallestNoiseWinsFromAsFarDownAsItMay) {
  constexpr TokenId kToken = 84'167;
  const Noise noise(/*seed=*/1, /*sample=*/0, /*position=*/13'648);
  ASSERT_EQ(noise.UniformOf(kToken), Noise::kUniformMin);
  for (const double temperature : {0.5, 1.0, 3.0}) {
    std::vector<float> logits(84'176, kImpossible);
    logits[0] = 10;
    const double time = noise.ExponentialOf(0);
    const float edge =
        10 + static_cast<float>(temperature * std::log(noise.ExponentialOf(kToken) / time));
    int wins = 0;
    for (int step = -40; step <= 40; ++step) {
      const float distance = std::ldexp(1.0f, std::abs(step) - 30);  // 2^-30 to 2^10
      logits[kToken] = step < 0 ? edge - distance : edge + distance;
      if (logits[kToken] > logits[0]) continue;
      const bool first =
          noise.ExponentialOf(kToken) / WeightOf(logits[kToken], 10, temperature) < time;
      wins += first;
      EXPECT_EQ(RaceOfAll(logits, FindMaximum(logits), temperature, 0, noise), first ? kToken : 0)
          << logits[kToken] << " at temperature " << temperature;
    }
    EXPECT_GT(wins, 20);
    EXPECT_LT(wins, 60);
  }
}

// Equal times are rare, so they are made: the weight of the second is chosen such that its clock
// rings with the first's, which rounding allows at every other position.
TEST(Race, OfEqualTimesTheLowestIdWins) {
  int ties = 0;
  for (uint32_t position = 0; position < 1000; ++position) {
    const Noise noise(1, 0, position);
    for (const TokenId favourite : {4, 9}) {
      const TokenId other = favourite == 4 ? 9 : 4;
      const double time = noise.ExponentialOf(favourite);
      const double weight = noise.ExponentialOf(other) / time;
      if (noise.ExponentialOf(other) / weight != time) continue;
      ++ties;
      const std::vector<Candidate> candidates = {{favourite, 0, 1}, {other, 0, weight}};
      EXPECT_EQ(RaceOfCandidates(candidates, favourite, 0, noise), 4);
    }
  }
  EXPECT_GT(ties, 500);
}

// Chi squared with d degrees of freedom exceeds d + 2 sqrt(d x) + 2 x with probability e^-x at most
// (Laurent and Massart).
double ChiSquaredBound(double degrees) {
  const double x = std::log(1e6);
  return degrees + 2 * std::sqrt(degrees * x) + 2 * x;
}

TEST(Race, SamplesTheSoftmax) {
  constexpr uint32_t kDraws = 200'000;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const double temperature : {0.7, 1.0, 3.0}) {
    std::vector<float> logits(24);
    for (float& z : logits) z = normal(random);
    SamplingOptions options;
    options.temperature = temperature;
    options.seed = 6;
    double total = 0;
    for (const float z : logits) total += std::exp(z / temperature);
    std::vector<double> counts(logits.size(), 0);
    for (uint32_t position = 0; position < kDraws; ++position) {
      ++counts[static_cast<size_t>(Race(logits, options, position))];
    }
    double chi_squared = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = kDraws * std::exp(logits[i] / temperature) / total;
      ASSERT_GE(expected, 50);
      chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LE(chi_squared, ChiSquaredBound(static_cast<double>(logits.size() - 1)));
  }
}

std::vector<double> Softmax(const std::vector<float>& logits) {
  std::vector<double> p(logits.size());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) total += p[i] = std::exp(static_cast<double>(logits[i]));
  for (double& x : p) x /= total;
  return p;
}

// Two exponential races that share their clocks agree with probability
//   sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i):
// token i wins both when E_j >= E_i max(p_j / p_i, q_j / q_i) for all j. The share of agreements
// among n has a standard error of sqrt(P (1 - P) / n).
TEST(Race, SharedNoiseMakesNearbyDistributionsAgreeAsTheorySays) {
  constexpr uint32_t kDraws = 100'000;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const float apart : {0.0f, 0.1f, 0.5f, 2.0f}) {
    std::vector<float> target(32);
    std::vector<float> draft(32);
    for (size_t i = 0; i < target.size(); ++i) {
      target[i] = 2 * normal(random);
      draft[i] = target[i] + apart * normal(random);
    }
    const std::vector<double> p = Softmax(target);
    const std::vector<double> q = Softmax(draft);
    double theory = 0;
    double independent = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      double sum = 0;
      for (size_t j = 0; j < p.size(); ++j) sum += std::max(p[j] / p[i], q[j] / q[i]);
      theory += 1 / sum;
      independent += p[i] * q[i];
    }
    SamplingOptions options;
    options.temperature = 1;
    options.seed = 8;
    SamplingOptions other = options;
    other.seed = 9;
    double agree = 0;
    double agree_by_chance = 0;
    for (uint32_t position = 0; position < kDraws; ++position) {
      const TokenId chosen = Race(target, options, position);
      agree += chosen == Race(draft, options, position);
      agree_by_chance += chosen == Race(draft, other, position);
    }
    const auto error = [&](double share) { return 4.9 * std::sqrt(share * (1 - share) / kDraws); };
    theory = std::min(theory, 1.0);  // equal distributions always agree, but for rounding here
    EXPECT_NEAR(agree / kDraws, theory, error(theory) + 1e-12) << apart;
    EXPECT_NEAR(agree_by_chance / kDraws, independent, error(independent)) << apart;
    EXPECT_GT(agree, agree_by_chance) << "or sharing would not be worth its while";
  }
}

}  // namespace
}  // namespace outrider
