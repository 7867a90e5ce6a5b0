#include "common/speculation/drafting/hint_trust.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace outrider {
namespace {

// What is known before anything is: a draft is believed more.
constexpr std::array<double, 3> kFirstWeights = {0.3, 0.7, 0.3};
// Steps. Logits are larger than 1, and their weights are near enough to begin with.
constexpr std::array<double, 3> kSteps = {0.05, 0.015, 0.015};
// Nobody is as sure as his logit could say.
constexpr double kLeast = 1.0 / 512;

double LogitOf(double probability) {
  const double within = std::clamp(probability, kLeast, 1 - kLeast);
  return std::log(within / (1 - within));
}

}  // namespace

HintTrust::HintTrust() {
  weights_.fill(kFirstWeights);
}

double HintTrust::Believed(const LiveHint& hint, double prior) {
  const size_t exit = std::min<size_t>(hint.exit, kExits - 1);
  const Terms terms = {1, LogitOf(prior), LogitOf(hint.probability)};
  const double logit = std::inner_product(terms.begin(), terms.end(), weights_[exit].begin(), 0.0);
  const double believed = 1 / (1 + std::exp(-logit));
  if (count_ < kKept) said_[count_++] = {hint.leaf, hint.next, exit, terms, believed};
  return believed;
}

void HintTrust::Learn(NodeId leaf, TokenId next) {
  for (const Said& said : std::span(said_).first(count_)) {
    const double was_right = said.leaf == leaf && said.next == next ? 1 : 0;
    Terms& weights = weights_[said.exit];
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] -= kSteps[i] * (said.believed - was_right) * said.terms[i];
    }
  }
  count_ = 0;
}

}  // namespace outrider
