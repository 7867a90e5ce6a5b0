#include "bench/simulator/world/time_profile.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "bench/simulator/cli/parse.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// A point as written, "8:30.7"; alone, "20".
std::optional<TimeProfile::Point> ParsePoint(std::string_view text) {
  const size_t colon = text.find(':');
  const bool alone = colon == std::string_view::npos;
  const std::optional<double> count = alone ? 1 : ParseNumber(text.substr(0, colon));
  const std::optional<double> ms = ParseNumber(alone ? text : text.substr(colon + 1));
  // A day is more than anybody simulates, and far from what nanoseconds can hold.
  if (!count || !ms || *count < 0 || *ms < 0 || *ms > 86'400'000) return std::nullopt;
  return TimeProfile::Point{*count, Milliseconds(*ms)};
}

}  // namespace

absl::StatusOr<TimeProfile> TimeProfile::Parse(std::string_view text) {
  std::vector<Point> points;
  for (const std::string_view part : SplitAt(text, ',')) {
    const std::optional<Point> point = ParsePoint(part);
    if (!point) {
      return InvalidArgument("'", part, "' is no time: it is written MS, or COUNT:MS for each ",
                             "count measured, as in 1:17.9,8:30.7");
    }
    if (!points.empty() && point->count <= points.back().count) {
      return InvalidArgument("the counts of '", text, "' do not rise");
    }
    points.push_back(*point);
  }
  return TimeProfile(std::move(points));
}

Duration TimeProfile::At(double count) const {
  if (points_.size() == 1 || count <= points_.front().count) return points_.front().time;
  auto right = std::find_if(points_.begin(), points_.end(),
                            [&](const Point& point) { return point.count >= count; });
  if (right == points_.end()) --right;
  const Point& left = *(right - 1);
  const double share = (count - left.count) / (right->count - left.count);
  const double ns = static_cast<double>(left.time.count()) +
                    share * static_cast<double>((right->time - left.time).count());
  return Duration(std::max<int64_t>(0, std::llround(ns)));
}

}  // namespace outrider
