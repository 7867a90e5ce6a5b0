// A moving average that takes its first sample as it is.
#pragma once

#include <optional>

namespace outrider {

class MovingAverage {
 public:
  void Add(double sample) { value_ = value_ ? *value_ + kNewest * (sample - *value_) : sample; }
  std::optional<double> value() const { return value_; }

 private:
  static constexpr double kNewest = 0.3;

  std::optional<double> value_;
};

}  // namespace outrider
