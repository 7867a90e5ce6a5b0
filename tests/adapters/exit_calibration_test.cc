// A calibration finds again what guesses were drawn with, and is monotone whatever they were.
#include "adapters/calibration/exit_calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gtest/gtest.h"

namespace outrider {
namespace {

// What an exit has ranked: scores as logits fall off, with noise on them.
std::vector<Ranked> RandomRanking(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<Ranked> ranked(8);
  const float spread = 0.5f + std::abs(normal(random));
  for (TokenId i = 0; i < static_cast<TokenId>(ranked.size()); ++i) {
    ranked[static_cast<size_t>(i)] = {i, spread * (3 * normal(random) + 6)};
  }
  std::ranges::sort(ranked, std::greater(), &Ranked::score);
  return ranked;
}

std::vector<double> Softmax(std::span<const Ranked> ranked, double kappa) {
  std::vector<double> p;
  for (const Ranked& one : ranked) p.push_back(std::exp((one.score - ranked[0].score) / kappa));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// The likelihood's information of ln kappa is the sum of the variances of score / kappa: four
// deviations of what that allows.
TEST(FitKappa, FindsTheKappaThatChoicesWereDrawnWith) {
  std::mt19937 random(1);
  for (const double kappa : {0.2, 0.7, 1.0, 3.0}) {
    std::vector<std::vector<Ranked>> rankings;
    std::vector<GuessLog::Choice> choices;
    double information = 0;
    for (int i = 0; i < 2000; ++i) rankings.push_back(RandomRanking(random));
    for (const std::vector<Ranked>& ranked : rankings) {
      const std::vector<double> p = Softmax(ranked, kappa);
      std::discrete_distribution<size_t> draw(p.begin(), p.end());
      choices.push_back({ranked, true, draw(random)});
      double mean = 0;
      double square = 0;
      for (size_t i = 0; i < p.size(); ++i) {
        mean += p[i] * ranked[i].score / kappa;
        square += p[i] * std::pow(ranked[i].score / kappa, 2);
      }
      information += square - mean * mean;
    }
    // Choices that nobody knows, or of none of those, say nothing of kappa.
    choices.push_back({rankings[0], false, std::nullopt});
    choices.push_back({rankings[1], true, std::nullopt});
    EXPECT_LE(std::abs(std::log(FitKappa(choices) / kappa)), 4 / std::sqrt(information))
        << "kappa " << kappa;
  }
}

TEST(FitKappa, StaysInBoundsWhereThereIsNothingToLearn) {
  std::mt19937 random(2);
  const std::vector<Ranked> ranked = RandomRanking(random);
  EXPECT_EQ(FitKappa({}), 1);
  EXPECT_EQ(FitKappa(std::vector<GuessLog::Choice>{{ranked, true, std::nullopt}}), 1);
  const std::vector<GuessLog::Choice> first(100, {ranked, true, 0});
  EXPECT_GE(FitKappa(first), kKappaMin);
  EXPECT_LT(FitKappa(first), 0.5f);
  const std::vector<GuessLog::Choice> last(100, {ranked, true, ranked.size() - 1});
  EXPECT_EQ(FitKappa(last), kKappaMax);
}

// Evidence of walks of one to four nodes.
ExitEvidence RandomEvidence(std::mt19937& random) {
  ExitEvidence evidence;
  for (uint32_t i = 0; i <= random() % 4; ++i) evidence.AddChoice(RandomRanking(random), 1);
  evidence.agrees_with_previous = random() % 2 == 0;
  evidence.agrees_with_first_draft = random() % 3 == 0;
  return evidence;
}

struct Guesses {
  std::vector<ExitEvidence> evidence;
  std::vector<uint8_t> outcomes;
};

Guesses Drawn(const ExitCalibration& calibration, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform;
  Guesses guesses;
  for (size_t i = 0; i < count; ++i) {
    guesses.evidence.push_back(RandomEvidence(random));
    guesses.outcomes.push_back(
        uniform(random) < ProbabilityOf(guesses.evidence.back(), calibration) ? 1 : 0);
  }
  return guesses;
}

constexpr ExitCalibration Line(float bias, float doubt, float entropy, float margin, float previous,
                               float first) {
  return {.kappa = 1,
          .bias = bias,
          .doubt = {{0, 100}, {doubt}},
          .entropy = {{0, 100}, {entropy}},
          .margin = {{0, ExitEvidence::kMarginMax}, {margin}},
          .agrees_with_previous = previous,
          .agrees_with_first_draft = first};
}

// A likelihood's estimate of d numbers from n guesses loses d / 2n nats to the truth on average,
// and nats are at least twice the square of what probabilities are off by (Pinsker). Lines are
// within reach of any bends; what lies beyond the last bend is flat here, and adds its own. Four
// times the average is beyond chance.
TEST(FitEvidence, FindsTheProbabilitiesThatOutcomesWereDrawnWith) {
  constexpr size_t kCount = 8000;
  constexpr double kNumbers = 13;
  uint32_t seed = 1;
  for (const ExitCalibration& truth :
       {Line(1, -0.6f, -0.2f, 0.1f, 0.5f, 1), Line(0, -0.3f, 0, 0, 2, 0),
        Line(-1, 0, -0.1f, 0.3f, 0, 0)}) {
    const Guesses guesses = Drawn(truth, kCount, seed++);
    const ExitCalibration found = FitEvidence(guesses.evidence, guesses.outcomes, 1);
    double square = 0;
    for (const ExitEvidence& one : guesses.evidence) {
      square += std::pow(ProbabilityOf(one, found) - ProbabilityOf(one, truth), 2) / kCount;
    }
    EXPECT_LE(square, 4 * kNumbers / (4 * kCount)) << "seed " << seed - 1;
    EXPECT_NEAR(found.agrees_with_previous, truth.agrees_with_previous, 0.3);
    EXPECT_NEAR(found.agrees_with_first_draft, truth.agrees_with_first_draft, 0.3);
  }
}

// Guesses that are right where everything speaks against them.
TEST(FitEvidence, IsMonotoneEvenWhereTheGuessesWereNot) {
  std::mt19937 random(3);
  for (int round = 0; round < 10; ++round) {
    Guesses guesses;
    for (int i = 0; i < 300; ++i) {
      guesses.evidence.push_back(RandomEvidence(random));
      const ExitEvidence& one = guesses.evidence.back();
      const bool contrary = one.doubt > 3 && one.margin < 1 && !one.agrees_with_previous;
      guesses.outcomes.push_back(round == 0 ? contrary : random() % 2 == 0);
    }
    const ExitCalibration found = FitEvidence(guesses.evidence, guesses.outcomes, 1);
    EXPECT_GE(found.agrees_with_previous, 0);
    EXPECT_GE(found.agrees_with_first_draft, 0);
    for (int i = 0; i < 1000; ++i) {
      ExitEvidence better = RandomEvidence(random);
      const float before = ProbabilityOf(better, found);
      const auto part = static_cast<float>(random() % 100) / 100;
      better.doubt *= part;
      better.entropy *= part;
      better.margin /= std::max(part, 0.1f);
      better.agrees_with_previous = true;
      EXPECT_GE(ProbabilityOf(better, found), before);
    }
  }
}

TEST(FitEvidence, IsPlainWhereAllEvidenceIsAlike) {
  const std::vector<ExitEvidence> evidence(1000);
  std::vector<uint8_t> outcomes(1000, 0);
  std::fill(outcomes.begin(), outcomes.begin() + 300, 1);
  const ExitCalibration found = FitEvidence(evidence, outcomes, 0.5f);
  EXPECT_EQ(found.kappa, 0.5f);
  EXPECT_TRUE(found.doubt.knots.empty());
  EXPECT_TRUE(found.margin.slopes.empty());
  EXPECT_NEAR(ProbabilityOf(evidence[0], found), 0.3, 1e-3);
}

}  // namespace
}  // namespace outrider
