// What a benchmark says of many rounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace outrider {

// Of at least one; of an even number, the upper of the two in the middle.
inline double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

}  // namespace outrider
