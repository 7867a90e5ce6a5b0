// Weights come back from outcomes that were drawn with them, and what they come back as is the
// best there is within the bounds.
#include "adapters/calibration/logistic_fit.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace outrider {
namespace {

// Rows of a one and two numbers in [0, 1].
LogisticProblem Drawn(const std::vector<double>& weights, size_t row_count, uint32_t seed) {
  LogisticProblem problem;
  problem.columns.assign(weights.size(), {.nonnegative = false, .penalty = 0});
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (size_t i = 0; i < row_count; ++i) {
    double logit = weights[0];
    problem.rows.push_back(1);
    for (size_t j = 1; j < weights.size(); ++j) {
      problem.rows.push_back(uniform(random));
      logit += weights[j] * problem.rows.back();
    }
    problem.outcomes.push_back(uniform(random) < 1 / (1 + std::exp(-logit)) ? 1 : 0);
  }
  return problem;
}

// Less what nobody can change: the derivative by each weight, from first principles.
std::vector<double> Gradient(const LogisticProblem& problem, const std::vector<double>& weights) {
  std::vector<double> gradient(weights.size());
  for (size_t i = 0; i < problem.outcomes.size(); ++i) {
    const double* const row = &problem.rows[i * weights.size()];
    double logit = 0;
    for (size_t j = 0; j < weights.size(); ++j) logit += weights[j] * row[j];
    for (size_t j = 0; j < weights.size(); ++j) {
      gradient[j] += (1 / (1 + std::exp(-logit)) - problem.outcomes[i]) * row[j];
    }
  }
  for (size_t j = 0; j < weights.size(); ++j) {
    gradient[j] += problem.columns[j].penalty * weights[j];
  }
  return gradient;
}

// The information that n rows have of the weight of a column in [0, 1] is n times the mean of
// p (1 - p) times its variance, which is 1/12, if all others were known; here p lies in 0.1 to 0.9,
// so p (1 - p) is 0.09 at the least. That the others are to be found too, none of which goes with
// it, costs a factor of 4 in variance at the most (that is what a bias does to a slope through the
// origin). Four deviations of that.
TEST(LogisticFit, FindsTheWeightsThatOutcomesWereDrawnWith) {
  const std::vector<double> weights = {-0.5, 1.4, -1.1};
  constexpr size_t kRows = 20000;
  const double tolerance = 4 * std::sqrt(4 / (kRows * 0.09 / 12));
  for (const uint32_t seed : {1u, 2u, 3u}) {
    const std::vector<double> found = FitLogistic(Drawn(weights, kRows, seed));
    for (size_t j = 0; j < weights.size(); ++j) {
      EXPECT_LE(std::abs(found[j] - weights[j]), tolerance) << "seed " << seed << ", weight " << j;
    }
  }
}

// Of a convex problem that is the minimum: no slope where a weight is free, and one that pushes
// against the bound where it is not.
TEST(LogisticFit, EndsWhereNoPermittedWayLeadsDown) {
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> weights(5);
    for (double& weight : weights) weight = static_cast<double>(random() % 9) - 4;
    LogisticProblem problem = Drawn(weights, 400, random());
    for (auto& column : problem.columns) column = {random() % 2 == 0, 0.01};
    const std::vector<double> found = FitLogistic(problem);
    const std::vector<double> gradient = Gradient(problem, found);
    for (size_t j = 0; j < found.size(); ++j) {
      const bool at_bound = problem.columns[j].nonnegative && found[j] == 0;
      EXPECT_GE(found[j], problem.columns[j].nonnegative ? 0 : -1e9);
      EXPECT_GE(gradient[j], -1e-5) << "round " << round;
      EXPECT_LE(gradient[j], at_bound ? 1e9 : 1e-5) << "round " << round;
    }
  }
}

TEST(LogisticFit, StaysFiniteWhereOutcomesAreAllAlike) {
  LogisticProblem problem = Drawn({0, 0}, 300, 5);
  problem.columns.assign(2, {.nonnegative = true, .penalty = 1.0 / 16});
  problem.outcomes.assign(300, 1);
  const std::vector<double> sure = FitLogistic(problem);
  EXPECT_GT(sure[0], 3);
  EXPECT_LT(sure[0] + sure[1], 20);
  problem.outcomes.assign(300, 0);
  EXPECT_EQ(FitLogistic(problem), std::vector<double>({0, 0}));
}

}  // namespace
}  // namespace outrider
