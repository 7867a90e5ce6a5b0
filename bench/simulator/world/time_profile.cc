#include "bench/simulator/world/time_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "bench/simulator/cli/parse.h"
#include "common/base/status.h"

namespace outrider {
namespace {

struct Shape {
  std::string_view name;
  std::string_view points;
};

constexpr std::array<Shape, 3> kShapes = {{
    // A billion weights in Q4_0 on two cores with AMX (bench/README.md).
    {"cpu", "1:22,5:28,9:33,16:42,32:70"},
    // Weights read from memory that is fast beside arithmetic that is faster.
    {"gpu", "1:20,16:21,64:28"},
    // The demonstration family's draft of 1.3 million weights, beside the first of these.
    {"draft", "1:0.6,8:0.9"},
}};

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

const Shape* FindShape(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto shape = std::ranges::find(kShapes, name, &Shape::name);
  return shape == kShapes.end() ? nullptr : &*shape;
}

}  // namespace

std::string_view TimeProfile::ShapeIn(std::string_view text) {
  const Shape* const shape = FindShape(text);
  return shape == nullptr ? std::string_view() : shape->name;
}

absl::StatusOr<TimeProfile> TimeProfile::Parse(std::string_view text) {
  const Shape* const shape = FindShape(text);
  if (shape == nullptr) return ParsePoints(text);
  OUTRIDER_ASSIGN_OR_RETURN(TimeProfile profile, ParsePoints(shape->points));
  if (text == shape->name) return profile;
  const std::optional<Point> one = ParsePoint(text.substr(shape->name.size() + 1));
  if (!one || one->count != 1) {
    return InvalidArgument("'", text, "' is no time: after ", shape->name,
                           ": stands what one takes, in ms");
  }
  const double factor = ToMilliseconds(one->time) / ToMilliseconds(profile.points_.front().time);
  for (Point& point : profile.points_) point.time = Scaled(point.time, factor);
  return profile;
}

absl::StatusOr<TimeProfile> TimeProfile::ParsePoints(std::string_view text) {
  std::vector<Point> points;
  for (const std::string_view part : SplitAt(text, ',')) {
    const std::optional<Point> point = ParsePoint(part);
    if (!point) {
      return InvalidArgument("'", part, "' is no time: it is written MS, COUNT:MS for each count ",
                             "measured, as in 1:17.9,8:30.7, or as one of the shapes cpu, gpu and ",
                             "draft, with what one takes, as in cpu:20");
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
