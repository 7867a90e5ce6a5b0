// How sure a source is of what it proposes: the probability that the target chooses a token where
// the source ranks it so, both under the same noise.
//
//   confidence.Of(ranked, probabilities);           // ranked by Chooser::Rank from its own logits
//   ...
//   confidence.Learn(ranked, chosen);               // once the target has chosen there
//
// The source's softmax is not it. With temperature the noise is known, and decides: a token of
// probability 0.03 whose noise puts it far ahead is as good as chosen. And greedily a source may be
// sure of itself where the target disagrees, or the other way round.
//
// The target sees the source's scores (logit / temperature + g, or greedily the logit) plus its
// disagreement with them. Were that independent from token to token and Gumbel distributed with
// scale kappa, the target's choice would be distributed as
//
//   P(token) = (1 - miss) e^(score / kappa) / sum over candidates of e^(score / kappa)
//
// and that is the model: kappa is how far the two disagree in these units, small for a good draft,
// and `miss` the probability that the target's choice is none of the candidates, which are the
// first kRankedMax of the source's order (fewer where truncation leaves fewer).
//
// Fitted is the likelihood of what the target has chosen, one observation at a time: log P for a
// candidate, log miss for any other token. In log kappa its derivative is
//
//   (mean of the scores under P - score of the choice) / kappa
//
// and log kappa moves by that over the information gathered so far, which is the sum of the
// variances of score / kappa (natural gradient). Information is forgotten by 1 in 100, so that
// about the last hundred choices count; miss is a mean over as many. Both begin with what an
// unknown source is like.
//
// Memory:  none besides itself.
// Threads: as a number.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "common/tokens/chooser.h"

namespace outrider {

class Confidence {
 public:
  static constexpr size_t kRankedMax = 32;

  // probabilities[i] is that the target chooses ranked[i]. `ranked` has at least one token, in
  // order.
  void Of(std::span<const Ranked> ranked, std::span<double> probabilities) const;

  // `chosen`: which of `ranked`, or none of them.
  void Learn(std::span<const Ranked> ranked, std::optional<size_t> chosen);

  double kappa() const;
  double miss() const;

 private:
  static constexpr double kInformationMin = 4;

  double log_kappa_ = -0.6;  // of drafts of a family, 0.4 to 0.7 at any temperature
  double information_ = kInformationMin;
  double choice_count_ = 40;  // as if so many had been seen
  double miss_count_ = 1;
};

}  // namespace outrider
