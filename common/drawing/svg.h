// The few pieces of SVG that our pictures are made of: dark text on white, and colours
// and marks that can be told apart by those who do not see colours too.
#pragma once

#include <cstddef>
#include <string>

namespace outrider {

inline constexpr const char* kInk = "#222222";

// As short as it can be to two decimals.
std::string Number(double value);

// &, < and > as XML writes them.
std::string Escaped(const std::string& text);

// `attributes` as in a tag: "fill=\"#222\" text-anchor=\"end\"".
std::string TextAt(double x, double y, const std::string& attributes, const std::string& text);

// A white page with a title and a line below it.
std::string PageBegin(double width, double height, const std::string& title,
                      const std::string& subtitle);
inline constexpr const char* kPageEnd = "</svg>\n";

// How line number i is drawn: no two of 21 alike. Lines of one colour have one mark, and differ in
// their dashes.
struct LineStyle {
  std::string colour;
  std::string dashes;  // empty: none
  size_t mark;
  double width;
};
LineStyle StyleOf(size_t line);
// Black and thick, like no other.
LineStyle StandingOut();

std::string StrokeOf(const LineStyle& style);  // attributes
std::string MarkAt(double x, double y, const LineStyle& style);

}  // namespace outrider
