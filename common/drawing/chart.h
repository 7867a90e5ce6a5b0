// Line charts as SVG: what a sweep found, at a glance.
//
//   Chart chart{.title = "Time per token", .x_label = "round trip, ms", .y_label = "ms"};
//   chart.lines.push_back({"ours", {{0, 12.1}, {50, 14.0}}, /*stands_out=*/true});
//   WriteFile("sweep.svg", ToSvg(chart));
//
// Lines are named where they end, from the top down, with a sample of each; they differ in mark or
// dashes, not in colour alone. One that stands out is thick. Both axes begin at zero, so that
// heights can be compared by eye.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace outrider {

struct Chart {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;
    bool stands_out = false;
  };

  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<Line> lines;
};

std::string ToSvg(const Chart& chart);

}  // namespace outrider
