// Byte pair encoding's one idea: of all adjacent pairs of symbols that may merge, the one of best
// rank does, the leftmost of equals; again and again until none is left.
//
// Short pieces (nearly all) scan for the best pair each time; long ones keep a heap over a linked
// list, O(n log n), so a megabyte without a space is no attack.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace outrider {

class MergeTable {
 public:
  // Token ids, and whatever negative or higher numbers a model gives to what is no token.
  using Symbol = int32_t;

  struct Merge {
    uint32_t rank;  // lower is better
    Symbol result;
  };

  void Reserve(size_t merges) { merges_.reserve(merges); }

  // The last rule for a pair counts.
  void Add(Symbol left, Symbol right, Merge merge) { merges_[Key(left, right)] = merge; }

  // Merges `symbols` in place until no rule applies.
  void Apply(std::vector<Symbol>& symbols) const;

 private:
  static constexpr uint32_t kNever = UINT32_MAX;  // the rank of a pair without a rule

  static uint64_t Key(Symbol left, Symbol right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  Merge Find(Symbol left, Symbol right) const {
    const auto it = merges_.find(Key(left, right));
    return it == merges_.end() ? Merge{kNever, 0} : it->second;
  }
  void ApplyByScanning(std::vector<Symbol>& symbols) const;
  void ApplyByHeap(std::vector<Symbol>& symbols) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace outrider
