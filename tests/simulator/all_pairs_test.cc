#include "tests/simulator/all_pairs.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using Counts = std::vector<size_t>;

const std::vector<Counts> kCounts = {
    {2, 3}, {1, 1}, {1, 5, 2}, {2, 2, 2}, {3, 3, 3, 3}, {7, 4, 4, 3, 3, 4, 2}, {2, 7, 2, 7, 2}};

TEST(AllPairs, EveryPairOfValuesOfEveryTwoFactorsMeets) {
  for (const Counts& counts : kCounts) {
    const auto rows = AllPairs(counts);
    for (size_t f = 0; f < counts.size(); ++f) {
      for (size_t g = f + 1; g < counts.size(); ++g) {
        std::set<std::pair<size_t, size_t>> met;
        for (const Counts& row : rows) {
          ASSERT_EQ(row.size(), counts.size());
          ASSERT_LT(row[f], counts[f]);
          ASSERT_LT(row[g], counts[g]);
          met.emplace(row[f], row[g]);
        }
        EXPECT_EQ(met.size(), counts[f] * counts[g]) << "factors " << f << " and " << g;
      }
    }
  }
}

// The two largest factors alone want so many rows.
TEST(AllPairs, ThereAreHardlyMoreRowsThanThereHaveToBe) {
  for (const Counts& counts : kCounts) {
    Counts sorted = counts;
    std::ranges::sort(sorted, std::greater());
    const size_t least = sorted[0] * sorted[1];
    const auto rows = AllPairs(counts);
    EXPECT_GE(rows.size(), least);
    EXPECT_LE(rows.size(), least + least / 5 + 1);
  }
}

TEST(AllPairs, IsTheSameEveryTime) {
  EXPECT_EQ(AllPairs(kCounts.back()), AllPairs(kCounts.back()));
}

}  // namespace
}  // namespace outrider
