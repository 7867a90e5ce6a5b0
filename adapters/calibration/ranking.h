// How good probabilities are: whether they come true, and whether they put the right first.
//
// outcomes[i] is whether what had probabilities[i] was so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace outrider {

struct ReliabilityBin {
  size_t count;
  double mean_probability;
  double share_true;
};

// By rising probability, bins of as equal counts as can be; `bin_count` of them, or one for each
// probability where there are fewer. Equal probabilities are told apart by their order.
std::vector<ReliabilityBin> Reliability(std::span<const double> probabilities,
                                        std::span<const uint8_t> outcomes, size_t bin_count);

// How far probability and truth are apart, on average over what is in the bins.
double ExpectedCalibrationError(std::span<const ReliabilityBin> bins);

// The chance that of two, one true and one not, the true one has the higher score (ties count
// half): the area under the ROC curve. None where all are true, or none.
std::optional<double> AreaUnderCurve(std::span<const double> scores,
                                     std::span<const uint8_t> outcomes);

// The mean of -ln of the probability that what came about was given; no probability counts as less
// than a millionth.
double LogLoss(std::span<const double> probabilities, std::span<const uint8_t> outcomes);

}  // namespace outrider
