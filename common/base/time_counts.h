// How long something took each time, for quantiles that are asked for in the end.
//
//   TimeCounts waits;
//   waits.Add(milliseconds(12));
//   waits.Quantile(0.95);   // no more than this in 95 of 100
//
// Memory:  a count for each eighth of an octave of nanoseconds, so a quantile is told to a part in
//          eight; no more however many there are.
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>

#include "common/base/monotonic_time.h"

namespace outrider {

class TimeCounts {
 public:
  void Add(Duration time, uint64_t times = 1) {
    if (times == 0) return;
    time = std::max(time, Duration::zero());
    counts_[PlaceOf(static_cast<uint64_t>(time.count()))] += times;
    count_ += times;
    max_ = std::max(max_, time);
  }
  void Add(const TimeCounts& others) {
    std::ranges::transform(counts_, others.counts_, counts_.begin(), std::plus());
    count_ += others.count_;
    max_ = std::max(max_, others.max_);
  }

  uint64_t count() const { return count_; }
  Duration max() const { return max_; }
  // No more than this, for such a share of them: 0.5 is the median. Zero when there are none.
  Duration Quantile(double share) const {
    uint64_t seen = 0;
    for (size_t place = 0; place < counts_.size(); ++place) {
      seen += counts_[place];
      if (seen > 0 && static_cast<double>(seen) >= share * static_cast<double>(count_)) {
        return std::min(EndOf(place), max_);
      }
    }
    return max_;
  }
  // How many took from 2^n to 2^(n+1) nanoseconds, for the histogram: n is at least 3.
  static constexpr size_t kOctaveMin = 3;
  static constexpr size_t kOctaveMax = 62;
  uint64_t OfOctave(size_t n) const {
    const auto first = counts_.begin() + static_cast<ptrdiff_t>(8 * (n - 2));
    return std::accumulate(first, first + 8, uint64_t{0});
  }

 private:
  // Eighths of an octave: the three bits below the highest. What is less than eight has no octave.
  static size_t PlaceOf(uint64_t ns) {
    if (ns < 8) return ns;
    const auto shift = static_cast<size_t>(std::bit_width(ns)) - 4;
    return 8 * (shift + 1) + ((ns >> shift) & 7);
  }
  // The longest that has this place.
  static Duration EndOf(size_t place) {
    if (place < 8) return Duration(place);
    const size_t shift = place / 8 - 1;
    return Duration(((uint64_t{8} + place % 8 + 1) << shift) - 1);
  }

  std::array<uint64_t, 8 * 62> counts_ = {};
  uint64_t count_ = 0;
  Duration max_ = {};
};

}  // namespace outrider
