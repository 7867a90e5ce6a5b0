#include "common/model/exits/exit_guess.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/base/portable_math.h"

namespace outrider {
namespace {

// Further behind than this a token has no part in the sums.
constexpr double kBehindMax = 700;

}  // namespace

void ExitEvidence::AddChoice(std::span<const Ranked> ranked, float kappa) {
  OUTRIDER_CHECK(!ranked.empty() && ranked.size() <= kRankedMax, "candidates are few, and some");
  std::array<double, kRankedMax> behind;  // (s_0 - s_i) / kappa
  double total = 0;
  double mean = 0;  // of `behind` under p, times total
  for (size_t i = 0; i < ranked.size(); ++i) {
    const double apart =
        static_cast<double>(ranked[0].score) - static_cast<double>(ranked[i].score);
    behind[i] = std::clamp(apart / static_cast<double>(kappa), 0.0, kBehindMax);
    const double weight = portable::Exp(-behind[i]);
    total += weight;
    mean += weight * behind[i];
  }
  // -ln p_i = behind_i + ln total.
  const double log_total = portable::Log(total);
  doubt += static_cast<float>(log_total);
  entropy += static_cast<float>(mean / total + log_total);
  if (ranked.size() > 1) margin = std::min(margin, static_cast<float>(behind[1]));
}

float Evaluate(const PiecewiseLinear& function, float x) {
  float value = 0;
  for (size_t i = 0; i < function.slopes.size() && x > function.knots[i]; ++i) {
    value += function.slopes[i] * (std::min(x, function.knots[i + 1]) - function.knots[i]);
  }
  return value;
}

float ProbabilityOf(const ExitEvidence& evidence, const ExitCalibration& calibration) {
  float logit = calibration.bias + Evaluate(calibration.doubt, evidence.doubt) +
                Evaluate(calibration.entropy, evidence.entropy) +
                Evaluate(calibration.margin, evidence.margin);
  if (evidence.agrees_with_previous) logit += calibration.agrees_with_previous;
  if (evidence.agrees_with_first_draft) logit += calibration.agrees_with_first_draft;
  return static_cast<float>(1 / (1 + portable::Exp(-static_cast<double>(logit))));
}

float UncalibratedProbabilityOf(const ExitEvidence& evidence) {
  return static_cast<float>(portable::Exp(-static_cast<double>(evidence.doubt)));
}

bool FollowsFirstDraft(std::span<const DraftedNode> nodes, uint32_t end) {
  const auto first_child = [&](uint32_t node) {
    const auto child = std::ranges::find(nodes, node, &DraftedNode::parent);
    return child == nodes.end() ? end : static_cast<uint32_t>(child - nodes.begin());
  };
  if (nodes.empty() || end == DraftedNode::kRoot || first_child(end) != end) return false;
  for (uint32_t node = end; node != DraftedNode::kRoot; node = nodes[node].parent) {
    if (first_child(nodes[node].parent) != node) return false;
  }
  return true;
}

}  // namespace outrider
