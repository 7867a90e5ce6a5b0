// How long a batch takes, by how many rows are in it: measured points and straight lines between.
//
//   TimeProfile::Parse("1:17.9,8:30.7,64:258.8")   the FSD paper's A100; beyond 64 as from 8 to 64
//   TimeProfile::Parse("cpu")                      measured here, as are gpu and draft
//   TimeProfile::Parse("cpu:20")                   of that shape, and one row takes 20 ms
//   TimeProfile::Parse("20")                       flat: 20 ms, whatever the count
//
// Below the first point the first holds; beyond the last the last line goes on.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class TimeProfile {
 public:
  struct Point {
    double count;
    Duration time;
  };

  static TimeProfile Constant(Duration time) { return TimeProfile({{1, time}}); }
  // Milliseconds. InvalidArgument unless counts rise and times are finite and not negative.
  static absl::StatusOr<TimeProfile> Parse(std::string_view text);

  // The name of the shape in a text such as "cpu:20"; empty where there is none.
  static std::string_view ShapeIn(std::string_view text);

  Duration At(double count) const;

 private:
  static absl::StatusOr<TimeProfile> ParsePoints(std::string_view text);

  explicit TimeProfile(std::vector<Point> points) : points_(std::move(points)) {}

  std::vector<Point> points_;  // one or more, counts rising
};

// Virtual times are computed in double and kept in whole nanoseconds.
inline Duration Milliseconds(double ms) {
  return Duration(static_cast<int64_t>(ms * 1e6 + 0.5));
}
inline Duration Scaled(Duration duration, double factor) {
  return Duration(static_cast<int64_t>(static_cast<double>(duration.count()) * factor));
}
inline double ToMilliseconds(Duration time) {
  return static_cast<double>(time.count()) * 1e-6;
}

}  // namespace outrider
