#include "common/text/merge_table.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using Symbol = MergeTable::Symbol;

// The definition, with nothing clever about it: find the best pair of all, merge it, start again.
std::vector<Symbol> MergedByDefinition(const std::vector<std::vector<uint32_t>>& rank,
                                       std::vector<Symbol> symbols) {
  for (;;) {
    size_t best = symbols.size();
    uint32_t best_rank = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t r = rank[static_cast<size_t>(symbols[i])][static_cast<size_t>(symbols[i + 1])];
      if (r != 0 && (best == symbols.size() || r < best_rank)) {
        best = i;
        best_rank = r;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = static_cast<Symbol>(best_rank % 12);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Lengths on both sides of the one where the algorithm changes.
TEST(MergeTable, GivesWhatTheDefinitionGives) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::vector<uint32_t>> rank(12, std::vector<uint32_t>(12, 0));
    MergeTable table;
    for (Symbol left = 0; left < 12; ++left) {
      for (Symbol right = 0; right < 12; ++right) {
        if (random() % 3 != 0) continue;
        const uint32_t r =
            1 + random() % 60;  // equal ranks are frequent; the result follows from the rank
        rank[static_cast<size_t>(left)][static_cast<size_t>(right)] = r;
        table.Add(left, right, {r, static_cast<Symbol>(r % 12)});
      }
    }
    std::vector<Symbol> symbols(random() % 200);
    for (Symbol& symbol : symbols) symbol = static_cast<Symbol>(random() % 12);
    const std::vector<Symbol> expected = MergedByDefinition(rank, symbols);
    table.Apply(symbols);
    ASSERT_EQ(symbols, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace outrider
