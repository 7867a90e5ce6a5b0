// Two summaries of the last few of many measurements. Neither allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrider {

// Half of them wild, and it is still one of the sane.
class RecentMedian {
 public:
  static constexpr size_t kCount = 9;

  explicit RecentMedian(double assumed) : assumed_(assumed) {}

  void Add(double value);
  // `assumed` until there is a value.
  double Value() const;
  uint32_t count() const { return count_; }

 private:
  double assumed_;
  uint32_t count_ = 0;
  std::array<double, kCount> values_;
};

// For small whole numbers, whose median would hardly move.
class RecentMean {
 public:
  static constexpr double kWeight = 1.0 / 8;

  explicit RecentMean(double assumed) : mean_(assumed) {}

  void Add(double value);
  double Value() const { return mean_; }

 private:
  double mean_;
};

}  // namespace outrider
