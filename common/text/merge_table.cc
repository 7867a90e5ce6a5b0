#include "common/text/merge_table.h"

#include <algorithm>
#include <array>
#include <queue>

namespace outrider {

namespace {

// Where scanning and the heap cost the same, measured on runs of random letters.
constexpr size_t kScanLimit = 64;

}  // namespace

void MergeTable::Apply(std::vector<Symbol>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kScanLimit) {
    ApplyByScanning(symbols);
  } else {
    ApplyByHeap(symbols);
  }
}

void MergeTable::ApplyByScanning(std::vector<Symbol>& symbols) const {
  std::array<Merge, kScanLimit> merges;  // merges[i]: of symbols i and i + 1
  size_t count = symbols.size() - 1;
  for (size_t i = 0; i < count; ++i) merges[i] = Find(symbols[i], symbols[i + 1]);
  while (count > 0) {
    size_t best = 0;
    for (size_t i = 1; i < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNever) break;
    symbols[best] = merges[best].result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + count, merges.begin() + best);
    --count;
    if (best < count) merges[best] = Find(symbols[best], symbols[best + 1]);
    if (best > 0) merges[best - 1] = Find(symbols[best - 1], symbols[best]);
  }
}

void MergeTable::ApplyByHeap(std::vector<Symbol>& symbols) const {
  constexpr uint32_t kEnd = UINT32_MAX;
  struct Node {
    Symbol symbol;
    uint32_t previous, next;
    bool merged_away;
  };
  // A candidate is stale when either symbol has changed since it was queued.
  struct Candidate {
    uint32_t rank, left;
    Symbol left_symbol, right_symbol, result;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<Node> nodes(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {symbols[i], i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1, false};
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto propose = [&](uint32_t left) {
    if (left == kEnd || nodes[left].next == kEnd) return;
    const Symbol a = nodes[left].symbol;
    const Symbol b = nodes[nodes[left].next].symbol;
    const Merge merge = Find(a, b);
    if (merge.rank != kNever) queue.push({merge.rank, left, a, b, merge.result});
  };
  for (uint32_t i = 0; i + 1 < count; ++i) propose(i);
  while (!queue.empty()) {
    const Candidate candidate = queue.top();
    queue.pop();
    Node& left = nodes[candidate.left];
    if (left.merged_away || left.symbol != candidate.left_symbol || left.next == kEnd) continue;
    Node& right = nodes[left.next];
    if (right.symbol != candidate.right_symbol) continue;
    left.symbol = candidate.result;
    right.merged_away = true;
    left.next = right.next;
    if (left.next != kEnd) nodes[left.next].previous = candidate.left;
    propose(left.previous);
    propose(candidate.left);
  }
  symbols.clear();
  for (uint32_t i = 0; i != kEnd; i = nodes[i].next) symbols.push_back(nodes[i].symbol);
}

}  // namespace outrider
