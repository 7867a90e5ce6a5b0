#include "common/drawing/chart.h"

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/drawing/svg.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Svg, NumbersAreShortAndTextIsEscaped) {
  EXPECT_EQ(Number(12), "12");
  EXPECT_EQ(Number(0.25), "0.25");
  EXPECT_EQ(Number(1.5), "1.5");
  EXPECT_EQ(Number(100), "100");
  EXPECT_EQ(Escaped("a < b & c > d"), "a &lt; b &amp; c &gt; d");
}

// By mark and dashes alone, without colour.
TEST(Svg, LinesDifferForTheColourBlindToo) {
  std::set<std::tuple<std::string, size_t, double>> styles;
  for (size_t line = 0; line < 21; ++line) {
    const LineStyle style = StyleOf(line);
    styles.emplace(style.dashes, style.mark, style.width);
  }
  const LineStyle standing_out = StandingOut();
  styles.emplace(standing_out.dashes, standing_out.mark, standing_out.width);
  EXPECT_EQ(styles.size(), 22u);
}

// Heights of the names at the right, from the SVG.
std::vector<double> NameHeights(const std::string& svg, const std::vector<std::string>& names) {
  std::vector<double> heights;
  for (const std::string& name : names) {
    std::smatch found;
    const std::regex text("y=\"([0-9.]+)\"[^>]*>" + name + "</text>");
    if (std::regex_search(svg, found, text)) heights.push_back(std::stod(found[1]));
  }
  return heights;
}

TEST(Chart, EveryLineIsNamedInTheOrderOfTheirEndsAndNoNameTouchesAnother) {
  Chart chart{.title = "T", .subtitle = "", .x_label = "x", .y_label = "y", .lines = {}};
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) {
    names.push_back("line" + std::to_string(i) + "end");
    chart.lines.push_back({names.back(), {{0, 0}, {10, 100 - i % 10}}});
  }
  std::vector<double> heights = NameHeights(ToSvg(chart), names);
  ASSERT_EQ(heights.size(), names.size());
  EXPECT_LT(heights[0], heights[1]);
  EXPECT_LT(heights[10], heights[1]);
  std::ranges::sort(heights);
  for (size_t i = 1; i < heights.size(); ++i) EXPECT_GE(heights[i] - heights[i - 1], 18.9);
  EXPECT_GT(heights.front(), 60);
  EXPECT_LT(heights.back(), 540);
}

}  // namespace
}  // namespace outrider
