#include "bench/simulator/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "bench/simulator/figures.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr double kWidth = 820;
constexpr double kHeight = 460;
constexpr double kLeft = 64;
constexpr double kRight = 650;  // names stand to the right of it
constexpr double kTop = 84;
constexpr double kBottom = 404;
constexpr double kNameHeight = 16;

// Okabe and Ito's colours, which the colour-blind can tell apart.
constexpr std::array<const char*, 8> kColours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                 "#56b4e9", "#d55e00", "#8c6d31", "#666666"};

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

std::string Number(double value) {
  std::string text = Decimals(value, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string TextAt(double x, double y, const char* attributes, const std::string& text) {
  return Concat("<text x=\"", Number(x), "\" y=\"", Number(y), "\" ", attributes, ">",
                Escaped(text), "</text>\n");
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
    svg_ = Concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", kHeight,
                  "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n",
                  "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    svg_ += TextAt(20, 32, "font-size=\"19\" font-weight=\"bold\" fill=\"#222\"", chart_.title);
    svg_ += TextAt(20, 54, "font-size=\"13\" fill=\"#666\"", chart_.subtitle);
    DrawAxes();
    DrawLines();
    DrawNames();
    return svg_ + "</svg>\n";
  }

 private:
  double X(double x) const { return kLeft + (kRight - kLeft) * x / x_.last; }
  double Y(double y) const { return kBottom - (kBottom - kTop) * y / y_.last; }
  static const char* Colour(size_t line) { return kColours[line % kColours.size()]; }

  void DrawAxes() {
    for (double y = 0; y <= y_.last * (1 + 1e-9); y += y_.step) {
      svg_ += Concat("<path d=\"M", Number(kLeft), " ", Number(Y(y)), "H", Number(kRight),
                     "\" stroke=\"", y == 0 ? "#888" : "#e4e4e4", "\"/>\n");
      svg_ += TextAt(kLeft - 8, Y(y) + 4, "text-anchor=\"end\" fill=\"#666\"", Number(y));
    }
    for (double x = 0; x <= x_.last * (1 + 1e-9); x += x_.step) {
      svg_ += Concat("<path d=\"M", Number(X(x)), " ", Number(kBottom), "v5\" stroke=\"#888\"/>\n");
      svg_ += TextAt(X(x), kBottom + 20, "text-anchor=\"middle\" fill=\"#666\"", Number(x));
    }
    svg_ += TextAt(kLeft - 44, kTop - 12, "fill=\"#666\"", chart_.y_label);
    svg_ += TextAt((kLeft + kRight) / 2, kBottom + 42, "text-anchor=\"middle\" fill=\"#666\"",
                   chart_.x_label);
  }

  void DrawLines() {
    for (size_t i = 0; i < chart_.lines.size(); ++i) {
      const Chart::Line& line = chart_.lines[i];
      std::string path;
      for (const auto& [x, y] : line.points) {
        path += Concat(path.empty() ? "M" : "L", Number(X(x)), " ", Number(Y(y)));
      }
      svg_ +=
          Concat("<path d=\"", path, "\" fill=\"none\" stroke=\"", Colour(i), "\" stroke-width=\"",
                 line.stands_out ? "3.5" : "1.8", "\" stroke-linejoin=\"round\"/>\n");
    }
  }

  // From top to bottom, pushed apart where they would touch.
  void DrawNames() {
    std::vector<std::pair<double, size_t>> places;
    for (size_t i = 0; i < chart_.lines.size(); ++i) {
      if (!chart_.lines[i].points.empty()) {
        places.emplace_back(Y(chart_.lines[i].points.back().second) + 4, i);
      }
    }
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) {
      places[i].first = std::max(places[i].first, places[i - 1].first + kNameHeight);
    }
    double floor = kBottom + 6;
    for (size_t i = places.size(); i-- > 0; floor -= kNameHeight) {
      places[i].first = std::min(places[i].first, floor);
    }
    for (const auto& [y, i] : places) {
      const std::string attributes =
          Concat("fill=\"", Colour(i), "\"",
                 chart_.lines[i].stands_out ? " font-weight=\"bold\" font-size=\"14\"" : "");
      svg_ += TextAt(kRight + 10, y, attributes.c_str(), chart_.lines[i].name);
    }
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

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

}  // namespace outrider
