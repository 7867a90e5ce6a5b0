#include "common/drawing/chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/status.h"
#include "common/drawing/svg.h"

namespace outrider {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 560;
constexpr double kLeft = 64;
constexpr double kRight = 660;  // samples and names of the lines stand to the right of it
constexpr double kTop = 96;
constexpr double kBottom = 500;
constexpr double kSampleLeft = kRight + 26;
constexpr double kSampleWidth = 34;
constexpr double kNameHeight = 19;
constexpr size_t kMarkCount = 6;  // of a line, about

// From zero to `last`, in round steps, 4 to 10 of them.
struct Axis {
  double last;
  double step;
};

Axis AxisUpTo(double largest) {
  if (!(largest > 0)) largest = 1;
  double step = std::pow(10, std::floor(std::log10(largest)));
  for (const double part : {0.1, 0.2, 0.25, 0.5, 1.0}) {
    if (largest / (step * part) <= 7) {
      step *= part;
      break;
    }
  }
  return {std::ceil(largest / step - 1e-9) * step, step};
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    double x = 0;
    double y = 0;
    for (const Chart::Line& line : chart.lines) {
      for (const auto& point : line.points) {
        x = std::max(x, point.first);
        y = std::max(y, point.second);
      }
    }
    x_ = AxisUpTo(x);
    y_ = AxisUpTo(y);
    // The last point stands on the right edge.
    if (x > 0) x_.last = x;
  }

  std::string Draw() {
    svg_ = PageBegin(kWidth, kHeight, chart_.title, chart_.subtitle);
    DrawAxes();
    // What stands out is drawn last, over the others.
    for (const bool stands_out : {false, true}) {
      for (size_t i = 0; i < chart_.lines.size(); ++i) {
        if (chart_.lines[i].stands_out == stands_out) DrawLine(i);
      }
    }
    DrawNames();
    return svg_ + kPageEnd;
  }

 private:
  double X(double x) const { return kLeft + (kRight - kLeft) * x / x_.last; }
  double Y(double y) const { return kBottom - (kBottom - kTop) * y / y_.last; }

  void DrawAxes() {
    for (double y = 0; y <= y_.last * (1 + 1e-9); y += y_.step) {
      svg_ += Concat("<path d=\"M", Number(kLeft), " ", Number(Y(y)), "H", Number(kRight),
                     "\" stroke=\"", y == 0 ? "#888" : "#e4e4e4", "\"/>\n");
      svg_ += TextAt(kLeft - 8, Y(y) + 4, "text-anchor=\"end\"", Number(y));
    }
    for (double x = 0; x <= x_.last * (1 + 1e-9); x += x_.step) {
      svg_ += Concat("<path d=\"M", Number(X(x)), " ", Number(kBottom), "v5\" stroke=\"#888\"/>\n");
      svg_ += TextAt(X(x), kBottom + 20, "text-anchor=\"middle\"", Number(x));
    }
    svg_ += TextAt(20, kTop - 16, "font-size=\"13\"", chart_.y_label);
    svg_ += TextAt((kLeft + kRight) / 2, kBottom + 44, "text-anchor=\"middle\" font-size=\"13\"",
                   chart_.x_label);
  }

  LineStyle StyleOf(size_t line) const {
    return chart_.lines[line].stands_out ? StandingOut() : outrider::StyleOf(line);
  }

  void DrawLine(size_t i) {
    const auto& points = chart_.lines[i].points;
    std::string path;
    for (const auto& [x, y] : points) {
      path += Concat(path.empty() ? "M" : "L", Number(X(x)), " ", Number(Y(y)));
    }
    svg_ += Concat("<path d=\"", path, "\" ", StrokeOf(StyleOf(i)), "/>\n");
    // Not all lines have theirs at the same points: those that run together would hide them.
    const size_t step = std::max<size_t>(1, points.size() / kMarkCount);
    for (size_t at = i % step; at < points.size(); at += step) {
      svg_ += MarkAt(X(points[at].first), Y(points[at].second), StyleOf(i));
    }
  }

  // From top to bottom, pushed apart where they would touch.
  void DrawNames() {
    std::vector<std::pair<double, size_t>> places;
    for (size_t i = 0; i < chart_.lines.size(); ++i) {
      if (!chart_.lines[i].points.empty()) {
        places.emplace_back(Y(chart_.lines[i].points.back().second), i);
      }
    }
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) {
      places[i].first = std::max(places[i].first, places[i - 1].first + kNameHeight);
    }
    double floor = kBottom;
    for (size_t i = places.size(); i-- > 0; floor -= kNameHeight) {
      places[i].first = std::min(places[i].first, floor);
    }
    for (const auto& [y, i] : places) DrawName(i, y);
  }

  // With a thin line to where its own ends, and a sample.
  void DrawName(size_t i, double y) {
    const Chart::Line& line = chart_.lines[i];
    svg_ += Concat("<path d=\"M", Number(kRight + 2), " ", Number(Y(line.points.back().second)),
                   "L", Number(kSampleLeft - 4), " ", Number(y), "\" stroke=\"#aaaaaa\"/>\n");
    svg_ += Concat("<path d=\"M", Number(kSampleLeft), " ", Number(y), "h", Number(kSampleWidth),
                   "\" ", StrokeOf(StyleOf(i)), "/>\n");
    svg_ += MarkAt(kSampleLeft + kSampleWidth / 2, y, StyleOf(i));
    svg_ += TextAt(kSampleLeft + kSampleWidth + 8, y + 4,
                   line.stands_out ? "font-weight=\"bold\" font-size=\"14\"" : "font-size=\"13\"",
                   line.name);
  }

  const Chart& chart_;
  Axis x_;
  Axis y_;
  std::string svg_;
};

}  // namespace

std::string ToSvg(const Chart& chart) {
  return Drawing(chart).Draw();
}

}  // namespace outrider
