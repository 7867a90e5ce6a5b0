#include "common/drawing/svg.h"

#include <array>
#include <cstddef>

#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

// Okabe and Ito's, which the colour-blind can tell apart; their yellow is too pale for a line.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#a0447c",
                                                 "#1f90d0", "#b07800", "#444444"};

// In a square of 2 by 2 around zero.
constexpr std::array<const char*, 7> kMarks = {
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0Z",                                 // a disc
    "M-.9-.9h1.8v1.8h-1.8Z",                                              // a square
    "M0-1.1L1.1.9H-1.1Z",                                                 // a triangle
    "M0-1.2L1.2 0L0 1.2L-1.2 0Z",                                         // a diamond
    "M-1.1-.9H1.1L0 1.1Z",                                                // a triangle on its tip
    "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7Z",                    // a plus
    "M-1-.5L-.5-1L0-.5L.5-1L1-.5L.5 0L1 .5L.5 1L0 .5L-.5 1L-1 .5L-.5 0Z"  // a cross
};

constexpr std::array<const char*, 3> kDashes = {"", "7 4", "2 3"};

constexpr double kMarkSize = 4;

}  // namespace

std::string Number(double value) {
  std::string text = Fixed(value, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
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

std::string TextAt(double x, double y, const std::string& attributes, const std::string& text) {
  return Concat("<text x=\"", Number(x), "\" y=\"", Number(y), "\" ", attributes, ">",
                Escaped(text), "</text>\n");
}

std::string PageBegin(double width, double height, const std::string& title,
                      const std::string& subtitle) {
  return Concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height,
                "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"", kInk,
                "\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
                TextAt(20, 32, "font-size=\"19\" font-weight=\"bold\"", title),
                TextAt(20, 54, "font-size=\"13\"", subtitle));
}

LineStyle StyleOf(size_t line) {
  return {kColours[line % kColours.size()], kDashes[line / kColours.size() % kDashes.size()],
          line % kMarks.size(), 1.8};
}

LineStyle StandingOut() {
  return {"#000000", "", 0, 4};
}

std::string StrokeOf(const LineStyle& style) {
  return Concat("fill=\"none\" stroke=\"", style.colour, "\" stroke-width=\"", Number(style.width),
                "\" stroke-linejoin=\"round\"",
                style.dashes.empty() ? "" : Concat(" stroke-dasharray=\"", style.dashes, "\""));
}

std::string MarkAt(double x, double y, const LineStyle& style) {
  return Concat("<path transform=\"translate(", Number(x), " ", Number(y), ") scale(", kMarkSize,
                ")\" d=\"", kMarks[style.mark], "\" fill=\"", style.colour, "\"/>\n");
}

}  // namespace outrider
