// Few combinations that try every pair: for factors with so many values each, rows of one value of
// every factor, such that any two values of any two factors meet in some row.
//
//   for (const std::vector<size_t>& row : AllPairs(std::array<size_t, 3>{7, 4, 2})) Try(row);
//
// Most faults hang on one setting or on two of them together, so what some 30 rows do not find,
// all 16,000 combinations would seldom find.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace outrider {

// Two factors or more, of one value or more. There cannot be fewer rows than the two largest
// factors have pairs; there are hardly more.
std::vector<std::vector<size_t>> AllPairs(std::span<const size_t> value_counts);

}  // namespace outrider
