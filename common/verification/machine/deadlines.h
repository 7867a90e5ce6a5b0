// Who is to be looked at when: at most one point in time for each number.
//
// What is looked at decides then whether its time has really come, and sets the next one. So a
// deadline that moves away, as one for silence does with every message, needs no change here.
//
// Memory:  an entry for each number.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class Deadlines {
 public:
  // No later than `at`.
  void SetNoLater(uint64_t number, MonotonicTime at) {
    const auto [entry, is_new] = times_.insert({number, at});
    if (!is_new) {
      if (entry->second <= at) return;
      order_.erase({entry->second, number});
      entry->second = at;
    }
    order_.insert({at, number});
  }

  void Remove(uint64_t number) {
    const auto entry = times_.find(number);
    if (entry == times_.end()) return;
    order_.erase({entry->second, number});
    times_.erase(entry);
  }

  std::optional<MonotonicTime> first() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->first;
  }

  // Takes out the first of those whose time has come.
  std::optional<uint64_t> TakeDue(MonotonicTime now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    const uint64_t number = order_.begin()->second;
    Remove(number);
    return number;
  }

  bool Has(uint64_t number) const { return times_.contains(number); }
  size_t size() const { return order_.size(); }

 private:
  std::set<std::pair<MonotonicTime, uint64_t>> order_;
  absl::flat_hash_map<uint64_t, MonotonicTime> times_;
};

}  // namespace outrider
