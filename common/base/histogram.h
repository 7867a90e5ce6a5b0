// How often a quantity lay between which bounds: "how long until the first token".
//
//   Histogram seconds({0.1, 1, 10});
//   seconds.Add(0.3);
//   seconds.counts();   // {0, 1, 0, 0}: up to 0.1, up to 1, up to 10, and beyond
//
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace outrider {

class Histogram {
 public:
  // Rising.
  Histogram(std::initializer_list<double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  // One that lies on a bound is below it.
  void Add(double value, uint64_t times = 1) {
    const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
    counts_[static_cast<size_t>(bucket)] += times;
    sum_ += value * static_cast<double>(times);
  }

  std::span<const double> bounds() const { return bounds_; }
  std::span<const uint64_t> counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

}  // namespace outrider
