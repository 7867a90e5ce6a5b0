#include "common/speculation/drafting/confidence.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"

namespace outrider {
namespace {

constexpr double kKept = 1 - 1.0 / 100;  // of what is known, at every choice

// No single choice moves kappa by more than a third, and neither agreement nor disagreement however
// long makes it useless.
constexpr double kStepMax = 0.3;
constexpr double kLogKappaMax = 2;
constexpr double kLogKappaMin = -4;

// Further behind than this no token is ever chosen.
constexpr double kScaledMin = -700;

// Of the scores divided by kappa, relative to the first.
struct Moments {
  double mean;
  double variance;
};

double Scaled(std::span<const Ranked> ranked, size_t i, double kappa) {
  const double behind = static_cast<double>(ranked[i].score) - static_cast<double>(ranked[0].score);
  return std::max(behind / kappa, kScaledMin);
}

// The softmax of the scaled scores is weights[i] over what is returned.
double Weigh(std::span<const Ranked> ranked, double kappa, std::span<double> weights) {
  double total = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    weights[i] = std::exp(Scaled(ranked, i, kappa));
    total += weights[i];
  }
  return total;
}

Moments MomentsOf(std::span<const Ranked> ranked, double kappa) {
  std::array<double, Confidence::kRankedMax> weights;
  const double total = Weigh(ranked, kappa, weights);
  Moments moments = {0, 0};
  for (size_t i = 0; i < ranked.size(); ++i) {
    moments.mean += weights[i] / total * Scaled(ranked, i, kappa);
  }
  for (size_t i = 0; i < ranked.size(); ++i) {
    const double apart = Scaled(ranked, i, kappa) - moments.mean;
    moments.variance += weights[i] / total * apart * apart;
  }
  return moments;
}

}  // namespace

double Confidence::kappa() const {
  return std::exp(log_kappa_);
}

double Confidence::miss() const {
  return miss_count_ / choice_count_;
}

void Confidence::Of(std::span<const Ranked> ranked, std::span<double> probabilities) const {
  OUTRIDER_CHECK(!ranked.empty() && ranked.size() <= kRankedMax, "candidates are few, and some");
  OUTRIDER_CHECK(probabilities.size() == ranked.size(), "each has a probability");
  const double total = Weigh(ranked, kappa(), probabilities);
  for (double& p : probabilities) p *= (1 - miss()) / total;
}

void Confidence::Learn(std::span<const Ranked> ranked, std::optional<size_t> chosen) {
  OUTRIDER_CHECK(!ranked.empty() && ranked.size() <= kRankedMax, "candidates are few, and some");
  choice_count_ = choice_count_ * kKept + 1;
  miss_count_ = miss_count_ * kKept + (chosen ? 0 : 1);
  if (!chosen) return;
  const Moments moments = MomentsOf(ranked, kappa());
  information_ = information_ * kKept + moments.variance;
  const double step =
      (moments.mean - Scaled(ranked, *chosen, kappa())) / std::max(information_, kInformationMin);
  log_kappa_ =
      std::clamp(log_kappa_ + std::clamp(step, -kStepMax, kStepMax), kLogKappaMin, kLogKappaMax);
}

}  // namespace outrider
