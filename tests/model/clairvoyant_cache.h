// The cache that knows the future: what no policy can do better than.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/model/weights/weight_store.h"

namespace outrider {

// Belady's: how many of these uses would be misses if, for each of them, what is needed latest of all
// had been evicted. One that is needed later than all that is there keeps no place. Counted are those
// of uses[first] and after it.
inline uint64_t ClairvoyantMisses(std::span<const ExpertKey> uses, uint32_t place_count,
                                  size_t first = 0) {
  using Id = std::pair<uint32_t, uint32_t>;
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> next_use(uses.size());
  std::map<Id, size_t> seen;
  for (size_t i = uses.size(); i-- > 0;) {
    const auto [at, is_last] = seen.try_emplace({uses[i].layer, uses[i].expert}, i);
    next_use[i] = is_last ? kNever : at->second;
    at->second = i;
  }
  std::set<std::pair<size_t, Id>> kept;  // by next use
  uint64_t misses = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    const Id id = {uses[i].layer, uses[i].expert};
    if (kept.erase({i, id}) == 0 && i >= first) ++misses;
    if (next_use[i] == kNever) continue;
    kept.insert({next_use[i], id});
    if (kept.size() > place_count) kept.erase(std::prev(kept.end()));
  }
  return misses;
}

}  // namespace outrider
