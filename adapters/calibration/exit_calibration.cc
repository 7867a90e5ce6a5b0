#include "adapters/calibration/exit_calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "adapters/calibration/logistic_fit.h"
#include "common/base/check.h"

namespace outrider {
namespace {

constexpr int kHalvings = 40;

// A weight is what a piece adds to the logit from one end to the other: of the size of a few. The
// penalty is that of a normal belief with a deviation of 4.
constexpr double kPenalty = 1.0 / 16;

constexpr size_t kDoubtPieces = 4;
constexpr size_t kEntropyPieces = 3;
constexpr size_t kMarginPieces = 3;
constexpr float kPieceMin = 0.01f;      // nats; less makes no difference
constexpr double kLastQuantile = 0.99;  // beyond it nothing changes: too few have been there

// Of the log likelihood, by 1 / kappa, but for a positive factor: how far the choices are ahead of
// what kappa expects. -ln p_0 and the entropy give the mean of a choice's distance behind the
// first, since -ln p_i is that distance besides -ln p_0.
double LikelihoodSlope(std::span<const GuessLog::Choice> choices, float kappa) {
  double slope = 0;
  for (const GuessLog::Choice& choice : choices) {
    if (!choice.taken) continue;
    ExitEvidence evidence;
    evidence.AddChoice(choice.ranked, kappa);
    const double expected_behind =
        static_cast<double>(evidence.entropy) - static_cast<double>(evidence.doubt);
    const float behind = choice.ranked[0].score - choice.ranked[*choice.taken].score;
    slope += expected_behind - static_cast<double>(behind) / static_cast<double>(kappa);
  }
  return slope;
}

std::vector<float> KnotsOf(std::vector<float> values, size_t piece_count) {
  std::vector<float> knots;
  if (values.empty()) return knots;
  std::ranges::sort(values);
  for (size_t i = 0; i <= piece_count; ++i) {
    const double share = kLastQuantile * static_cast<double>(i) / static_cast<double>(piece_count);
    const float knot = values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
    if (knots.empty() || knot >= knots.back() + kPieceMin) knots.push_back(knot);
  }
  if (knots.size() < 2) knots.clear();
  return knots;
}

// One argument of the model: pieces between knots, each of which is a column of the regression. A
// column is how much of its piece lies below the argument, from 0 to 1, or to -1 where more of it
// speaks against the guess; so no weight is negative.
class Argument {
 public:
  Argument(float ExitEvidence::*field, float sign, std::span<const ExitEvidence> evidence,
           size_t piece_count)
      : field_(field), sign_(sign) {
    std::vector<float> values;
    for (const ExitEvidence& one : evidence) values.push_back(one.*field);
    knots_ = KnotsOf(std::move(values), piece_count);
  }

  size_t piece_count() const { return knots_.empty() ? 0 : knots_.size() - 1; }

  void AppendColumns(const ExitEvidence& evidence, std::vector<double>& row) const {
    for (size_t i = 0; i < piece_count(); ++i) {
      const float below = std::clamp(evidence.*field_, knots_[i], knots_[i + 1]) - knots_[i];
      row.push_back(static_cast<double>(sign_ * below / Width(i)));
    }
  }

  PiecewiseLinear FunctionOf(std::span<const double> weights) const {
    PiecewiseLinear function{.knots = knots_, .slopes = {}};
    for (size_t i = 0; i < piece_count(); ++i) {
      function.slopes.push_back(sign_ * static_cast<float>(weights[i]) / Width(i));
    }
    return function;
  }

 private:
  float Width(size_t i) const { return knots_[i + 1] - knots_[i]; }

  float ExitEvidence::*field_;
  float sign_;
  std::vector<float> knots_;
};

}  // namespace

float FitKappa(std::span<const GuessLog::Choice> choices) {
  if (std::ranges::none_of(choices, [](const auto& choice) { return choice.taken.has_value(); })) {
    return 1;
  }
  // The slope falls as 1 / kappa rises: at the likeliest kappa it passes through zero.
  double low = std::log(kKappaMin);
  double high = std::log(kKappaMax);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const bool too_large = LikelihoodSlope(choices, static_cast<float>(std::exp(middle))) > 0;
    (too_large ? high : low) = middle;
  }
  return std::clamp(static_cast<float>(std::exp((low + high) / 2)), kKappaMin, kKappaMax);
}

ExitCalibration FitEvidence(std::span<const ExitEvidence> evidence,
                            std::span<const uint8_t> outcomes, float kappa) {
  OUTRIDER_CHECK(evidence.size() == outcomes.size(), "something came of every guess");
  const Argument doubt(&ExitEvidence::doubt, -1, evidence, kDoubtPieces);
  const Argument entropy(&ExitEvidence::entropy, -1, evidence, kEntropyPieces);
  const Argument margin(&ExitEvidence::margin, 1, evidence, kMarginPieces);

  LogisticProblem problem;
  problem.outcomes.assign(outcomes.begin(), outcomes.end());
  for (const ExitEvidence& one : evidence) {
    problem.rows.push_back(1);
    problem.rows.push_back(one.agrees_with_previous ? 1 : 0);
    problem.rows.push_back(one.agrees_with_first_draft ? 1 : 0);
    doubt.AppendColumns(one, problem.rows);
    entropy.AppendColumns(one, problem.rows);
    margin.AppendColumns(one, problem.rows);
  }
  const size_t column_count =
      3 + doubt.piece_count() + entropy.piece_count() + margin.piece_count();
  problem.columns.assign(column_count, {.nonnegative = true, .penalty = kPenalty});
  problem.columns[0].nonnegative = false;

  const std::vector<double> weights = FitLogistic(problem);
  std::span<const double> rest = std::span(weights).subspan(3);
  const auto next = [&](const Argument& argument) {
    const PiecewiseLinear function = argument.FunctionOf(rest.first(argument.piece_count()));
    rest = rest.subspan(argument.piece_count());
    return function;
  };
  ExitCalibration calibration;
  calibration.kappa = kappa;
  calibration.bias = static_cast<float>(weights[0]);
  calibration.agrees_with_previous = static_cast<float>(weights[1]);
  calibration.agrees_with_first_draft = static_cast<float>(weights[2]);
  calibration.doubt = next(doubt);
  calibration.entropy = next(entropy);
  calibration.margin = next(margin);
  return calibration;
}

ExitCalibration FitExit(const GuessLog& log, uint32_t exit) {
  std::vector<GuessLog::Choice> choices;
  std::vector<uint8_t> outcomes;
  for (const GuessLog::Guess& guess : log.guesses()) {
    if (guess.exit != exit) continue;
    outcomes.push_back(guess.matches ? 1 : 0);
    for (size_t i = 0; i < guess.choice_count; ++i) choices.push_back(log.ChoiceOf(guess, i));
  }
  const float kappa = FitKappa(choices);
  std::vector<ExitEvidence> evidence;
  for (const GuessLog::Guess& guess : log.guesses()) {
    if (guess.exit == exit) evidence.push_back(log.EvidenceOf(guess, kappa));
  }
  return FitEvidence(evidence, outcomes, kappa);
}

}  // namespace outrider
