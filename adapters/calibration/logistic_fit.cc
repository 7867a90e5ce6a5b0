#include "adapters/calibration/logistic_fit.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "common/base/check.h"

namespace outrider {
namespace {

constexpr int kStepsMax = 100;
constexpr double kGradientMin = 1e-9;  // a row's worth: below it nothing moves any more
constexpr double kShortestStep = 1e-10;
constexpr double kEnoughOfTheGain = 1e-4;  // of what the slope promises (Armijo)

double LogOnePlusExp(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

class Fit {
 public:
  explicit Fit(const LogisticProblem& problem)
      : problem_(problem),
        column_count_(problem.columns.size()),
        weights_(column_count_),
        gradient_(column_count_),
        hessian_(column_count_ * column_count_),
        held_(column_count_),
        step_(column_count_) {
    OUTRIDER_CHECK(problem.rows.size() == column_count_ * problem.outcomes.size(),
                   "a row has a number for each column");
  }

  std::vector<double> Run() {
    for (int i = 0; i < kStepsMax; ++i) {
      Derive();
      Hold();
      if (!FindStep() || !Move()) break;
    }
    return weights_;
  }

 private:
  std::span<const double> Row(size_t i) const {
    return std::span(problem_.rows).subspan(i * column_count_, column_count_);
  }

  static double Dot(std::span<const double> row, std::span<const double> weights) {
    double sum = 0;
    for (size_t j = 0; j < row.size(); ++j) sum += row[j] * weights[j];
    return sum;
  }

  // What is to be as small as can be.
  double Loss(std::span<const double> weights) const {
    double loss = 0;
    for (size_t i = 0; i < problem_.outcomes.size(); ++i) {
      const double logit = Dot(Row(i), weights);
      loss += LogOnePlusExp(problem_.outcomes[i] != 0 ? -logit : logit);
    }
    for (size_t j = 0; j < column_count_; ++j) {
      loss += problem_.columns[j].penalty / 2 * weights[j] * weights[j];
    }
    return loss;
  }

  void Derive() {
    std::ranges::fill(gradient_, 0);
    std::ranges::fill(hessian_, 0);
    for (size_t i = 0; i < problem_.outcomes.size(); ++i) {
      const std::span<const double> row = Row(i);
      const double p = 1 / (1 + std::exp(-Dot(row, weights_)));
      const double error = p - (problem_.outcomes[i] != 0 ? 1 : 0);
      for (size_t j = 0; j < column_count_; ++j) {
        gradient_[j] += error * row[j];
        const double curvature = p * (1 - p) * row[j];
        for (size_t k = 0; k <= j; ++k) hessian_[j * column_count_ + k] += curvature * row[k];
      }
    }
    for (size_t j = 0; j < column_count_; ++j) {
      gradient_[j] += problem_.columns[j].penalty * weights_[j];
      hessian_[j * column_count_ + j] += problem_.columns[j].penalty;
    }
  }

  void Hold() {
    for (size_t j = 0; j < column_count_; ++j) {
      held_[j] = problem_.columns[j].nonnegative && weights_[j] <= 0 && gradient_[j] >= 0 ? 1 : 0;
    }
  }

  // The Newton step of what is not held, by Cholesky's factors of the lower half. False when there
  // is nothing left to gain.
  bool FindStep() {
    double largest = 0;
    for (size_t j = 0; j < column_count_; ++j) {
      if (held_[j] == 0) largest = std::max(largest, std::abs(gradient_[j]));
    }
    if (largest <= kGradientMin * static_cast<double>(problem_.outcomes.size())) return false;

    const auto at = [&](size_t j, size_t k) -> double& { return hessian_[j * column_count_ + k]; };
    for (size_t j = 0; j < column_count_; ++j) {
      step_[j] = held_[j] != 0 ? 0 : -gradient_[j];
      for (size_t k = 0; k < j; ++k) {
        if (held_[j] != 0 || held_[k] != 0) at(j, k) = 0;
      }
      if (held_[j] != 0) at(j, j) = 1;
      at(j, j) += 1e-12;  // a column of nothing goes nowhere
    }
    for (size_t j = 0; j < column_count_; ++j) {
      for (size_t k = 0; k <= j; ++k) {
        double rest = at(j, k);
        for (size_t m = 0; m < k; ++m) rest -= at(j, m) * at(k, m);
        at(j, k) = j == k ? std::sqrt(std::max(rest, 1e-12)) : rest / at(k, k);
      }
    }
    for (size_t j = 0; j < column_count_; ++j) {
      for (size_t k = 0; k < j; ++k) step_[j] -= at(j, k) * step_[k];
      step_[j] /= at(j, j);
    }
    for (size_t j = column_count_; j-- > 0;) {
      for (size_t k = j + 1; k < column_count_; ++k) step_[j] -= at(k, j) * step_[k];
      step_[j] /= at(j, j);
    }
    return true;
  }

  // False when no length of the step is a gain.
  bool Move() {
    const double before = Loss(weights_);
    std::vector<double> moved(column_count_);
    for (double length = 1; length >= kShortestStep; length /= 2) {
      double promised = 0;
      for (size_t j = 0; j < column_count_; ++j) {
        moved[j] = weights_[j] + length * step_[j];
        if (problem_.columns[j].nonnegative) moved[j] = std::max(moved[j], 0.0);
        promised += gradient_[j] * (moved[j] - weights_[j]);
      }
      if (promised < 0 && Loss(moved) <= before + kEnoughOfTheGain * promised) {
        weights_ = moved;
        return true;
      }
    }
    return false;
  }

  const LogisticProblem& problem_;
  const size_t column_count_;
  std::vector<double> weights_;
  std::vector<double> gradient_;
  std::vector<double> hessian_;  // [columns, columns], the lower half
  std::vector<uint8_t> held_;    // at zero
  std::vector<double> step_;
};

}  // namespace

std::vector<double> FitLogistic(const LogisticProblem& problem) {
  return Fit(problem).Run();
}

}  // namespace outrider
