#include "adapters/calibration/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/check.h"

namespace outrider {
namespace {

// Indices of the values, rising.
std::vector<size_t> Order(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  return order;
}

}  // namespace

std::vector<ReliabilityBin> Reliability(std::span<const double> probabilities,
                                        std::span<const uint8_t> outcomes, size_t bin_count) {
  OUTRIDER_CHECK(probabilities.size() == outcomes.size(), "each came out somehow");
  const std::vector<size_t> order = Order(probabilities);
  std::vector<ReliabilityBin> bins;
  for (size_t bin = 0; bin < bin_count; ++bin) {
    const size_t begin = order.size() * bin / bin_count;
    const size_t end = order.size() * (bin + 1) / bin_count;
    if (begin == end) continue;
    double probability = 0;
    double count_true = 0;
    for (size_t i = begin; i < end; ++i) {
      probability += probabilities[order[i]];
      count_true += outcomes[order[i]] != 0 ? 1 : 0;
    }
    const auto count = static_cast<double>(end - begin);
    bins.push_back({end - begin, probability / count, count_true / count});
  }
  return bins;
}

double ExpectedCalibrationError(std::span<const ReliabilityBin> bins) {
  double sum = 0;
  double count = 0;
  for (const ReliabilityBin& bin : bins) {
    sum += static_cast<double>(bin.count) * std::abs(bin.mean_probability - bin.share_true);
    count += static_cast<double>(bin.count);
  }
  return count == 0 ? 0 : sum / count;
}

std::optional<double> AreaUnderCurve(std::span<const double> scores,
                                     std::span<const uint8_t> outcomes) {
  OUTRIDER_CHECK(scores.size() == outcomes.size(), "each came out somehow");
  const std::vector<size_t> order = Order(scores);
  double pairs_won = 0;
  double false_below = 0;
  double true_count = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double tied_true = 0;
    double tied_false = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      (outcomes[order[end]] != 0 ? tied_true : tied_false) += 1;
    }
    pairs_won += tied_true * (false_below + tied_false / 2);
    false_below += tied_false;
    true_count += tied_true;
  }
  if (true_count == 0 || false_below == 0) return std::nullopt;
  return pairs_won / (true_count * false_below);
}

double LogLoss(std::span<const double> probabilities, std::span<const uint8_t> outcomes) {
  constexpr double kLeast = 1e-6;
  double loss = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const double given = outcomes[i] != 0 ? probabilities[i] : 1 - probabilities[i];
    loss -= std::log(std::max(given, kLeast));
  }
  return outcomes.empty() ? 0 : loss / static_cast<double>(outcomes.size());
}

}  // namespace outrider
