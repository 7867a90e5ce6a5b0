// Figures of merit against values by hand, and against the plain way to count.
#include "adapters/calibration/ranking.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Reliability, CountsByHand) {
  const std::vector<double> probabilities = {0.9, 0.1, 0.8, 0.3, 0.5};
  const std::vector<uint8_t> outcomes = {1, 0, 1, 1, 0};
  const std::vector<ReliabilityBin> bins = Reliability(probabilities, outcomes, 2);
  ASSERT_EQ(bins.size(), 2u);
  EXPECT_EQ(bins[0].count, 2u);  // 0.1, 0.3
  EXPECT_DOUBLE_EQ(bins[0].mean_probability, 0.2);
  EXPECT_DOUBLE_EQ(bins[0].share_true, 0.5);
  EXPECT_EQ(bins[1].count, 3u);  // 0.5, 0.8, 0.9
  EXPECT_DOUBLE_EQ(bins[1].mean_probability, 2.2 / 3);
  EXPECT_DOUBLE_EQ(bins[1].share_true, 2.0 / 3);
  EXPECT_DOUBLE_EQ(ExpectedCalibrationError(bins), (2 * 0.3 + 3 * (0.2 / 3)) / 5);
}

TEST(Reliability, HasNoEmptyBins) {
  const std::vector<double> probabilities = {0.5, 0.2};
  const std::vector<uint8_t> outcomes = {1, 0};
  EXPECT_EQ(Reliability(probabilities, outcomes, 10).size(), 2u);
  EXPECT_DOUBLE_EQ(ExpectedCalibrationError(Reliability(probabilities, outcomes, 10)), 0.35);
  EXPECT_TRUE(Reliability({}, {}, 10).empty());
  EXPECT_EQ(ExpectedCalibrationError({}), 0);
}

// What comes true as often as it should has an error of no more than chance makes: of m in a bin
// the mean is off by sqrt(p (1 - p) / m), and on average over bins that is at most half of 1 / sqrt
// m, times sqrt(2 / pi); three times that is beyond chance.
TEST(Reliability, OfTrueProbabilitiesHasLittleError) {
  std::mt19937 random(6);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> probabilities;
  std::vector<uint8_t> outcomes;
  for (int i = 0; i < 20000; ++i) {
    probabilities.push_back(uniform(random));
    outcomes.push_back(uniform(random) < probabilities.back() ? 1 : 0);
  }
  const double chance = 0.5 / std::sqrt(2000) * std::sqrt(2 / M_PI);
  EXPECT_LE(ExpectedCalibrationError(Reliability(probabilities, outcomes, 10)), 3 * chance);
  for (double& p : probabilities) p *= p;  // too small by x - x^2, a sixth on average
  EXPECT_NEAR(ExpectedCalibrationError(Reliability(probabilities, outcomes, 10)), 1.0 / 6,
              3 * chance);
}

TEST(AreaUnderCurve, CountsByHand) {
  const std::vector<uint8_t> outcomes = {1, 0, 1, 0};
  const auto area = [&](const std::vector<double>& scores) {
    return AreaUnderCurve(scores, outcomes);
  };
  EXPECT_EQ(area({4, 1, 3, 2}), 1.0);
  EXPECT_EQ(area({1, 4, 2, 3}), 0.0);
  EXPECT_EQ(area({7, 7, 7, 7}), 0.5);
  EXPECT_EQ(area({2, 1, 1, 3}), 0.375);  // 2 > 1, 1 = 1, 2 < 3, 1 < 3
  EXPECT_FALSE(AreaUnderCurve(std::vector<double>{1, 2}, std::vector<uint8_t>{1, 1}));
  EXPECT_FALSE(AreaUnderCurve(std::vector<double>{1, 2}, std::vector<uint8_t>{0, 0}));
}

TEST(AreaUnderCurve, IsTheShareOfPairsInOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> scores;
    std::vector<uint8_t> outcomes;
    for (uint32_t i = 0; i < 2 + random() % 60; ++i) {
      scores.push_back(static_cast<double>(random() % 12));
      outcomes.push_back(random() % 3 == 0 ? 1 : 0);
    }
    double won = 0;
    double pairs = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      for (size_t j = 0; j < scores.size(); ++j) {
        if (outcomes[i] == 0 || outcomes[j] != 0) continue;
        won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
        pairs += 1;
      }
    }
    const std::optional<double> area = AreaUnderCurve(scores, outcomes);
    ASSERT_EQ(area.has_value(), pairs > 0);
    EXPECT_NEAR(area.value_or(0), pairs > 0 ? won / pairs : 0, 1e-12);
  }
}

TEST(LogLoss, CountsByHand) {
  EXPECT_DOUBLE_EQ(LogLoss(std::vector<double>{0.5, 0.25}, std::vector<uint8_t>{1, 0}),
                   -(std::log(0.5) + std::log(0.75)) / 2);
  EXPECT_DOUBLE_EQ(LogLoss(std::vector<double>{0}, std::vector<uint8_t>{1}), std::log(1e6));
}

}  // namespace
}  // namespace outrider
