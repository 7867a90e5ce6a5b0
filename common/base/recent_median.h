// Summaries of the last few of many measurements. None of them allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace outrider {

// With less than half of the values wild, it is one of the sane; a lasting change is believed once
// it has lasted for half of them.
template <size_t kCount>
class RecentMedian {
 public:
  void Add(double value) {
    values_[next_] = value;
    next_ = (next_ + 1) % kCount;
    count_ = std::min(count_ + 1, kCount);
  }

  bool empty() const { return count_ == 0; }

  // Of an even number, the lower one. Not when it is empty.
  double Value() const {
    std::array<double, kCount> sorted = values_;
    const auto middle = sorted.begin() + (count_ - 1) / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + count_);
    return *middle;
  }

 private:
  size_t count_ = 0;
  size_t next_ = 0;
  std::array<double, kCount> values_{};
};

// For counts, whose median would hardly move: the mean of the last 1 / kWeight, roughly; of all,
// while there are fewer.
class RecentMean {
 public:
  static constexpr double kWeight = 1.0 / 16;

  void Add(double value) {
    ++count_;
    mean_ += (value - mean_) * std::max(kWeight, 1.0 / count_);
  }

  bool empty() const { return count_ == 0; }
  double Value() const { return mean_; }

 private:
  uint32_t count_ = 0;
  double mean_ = 0;
};

}  // namespace outrider
