// Logistic regression in which some of the weights are not negative:
//
//   P(a row is true) = 1 / (1 + e^-(weights . row))
//
// The weights are those that make the outcomes likeliest, less half of `penalty` times the square
// of each. That is a convex problem; projected Newton steps solve it to rounding: weights that
// stand at zero and want to go below are held there, the others take a Newton step and are cut off
// at zero, shortened until it is a gain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrider {

struct LogisticProblem {
  struct Column {
    bool nonnegative = false;
    double penalty = 0;  // above 0 in a column that may tell the outcomes apart without a mistake
  };

  std::vector<Column> columns;
  std::vector<double> rows;  // [outcomes, columns]
  std::vector<uint8_t> outcomes;
};

// One for each column.
std::vector<double> FitLogistic(const LogisticProblem& problem);

}  // namespace outrider
