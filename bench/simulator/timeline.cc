#include "bench/simulator/timeline.h"

#include <algorithm>

#include "bench/simulator/chart.h"
#include "bench/simulator/figures.h"
#include "bench/simulator/time_profile.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr double kWidth = 1180;
constexpr double kHeight = 360;
constexpr double kLeft = 70;
constexpr double kRight = 1160;
constexpr double kDeviceTop = 96;  // of the draft's bars
constexpr double kServerTop = 268;
constexpr double kBarHeight = 26;
constexpr double kNumberWidth = 15;  // narrower bars have no number in them

constexpr const char* kDraftColour = "#56b4e9";
constexpr const char* kRunColour = "#e69f00";
constexpr const char* kUpColour = "#0072b2";
constexpr const char* kDownColour = "#d55e00";
constexpr const char* kTokenColour = "#009e73";

class Drawing {
 public:
  Drawing(const Journal& journal, const TimelineOptions& options)
      : journal_(journal), options_(options) {}

  std::string Draw() {
    svg_ = Concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", kHeight,
                  "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n",
                  "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
                  "<clipPath id=\"frame\"><rect x=\"", kLeft, "\" y=\"60\" width=\"",
                  kRight - kLeft, "\" height=\"270\"/></clipPath>\n");
    Text(20, 30, "font-size=\"18\" font-weight=\"bold\" fill=\"#222\"", options_.title);
    Text(20, 50, "font-size=\"13\" fill=\"#666\"", options_.subtitle);
    Text(14, kDeviceTop + 18, "font-size=\"13\" fill=\"#444\"", "device");
    Text(14, kServerTop + 18, "font-size=\"13\" fill=\"#444\"", "server");
    DrawAxis();
    svg_ += "<g clip-path=\"url(#frame)\">\n";
    for (const Journal::Entry& entry : journal_.entries()) DrawEntry(entry);
    svg_ += "</g>\n";
    return svg_ + "</svg>\n";
  }

 private:
  double X(MonotonicTime at) const {
    return kLeft +
           (kRight - kLeft) * ToMilliseconds(at - options_.begin) / ToMilliseconds(options_.length);
  }

  void Text(double x, double y, const std::string& attributes, const std::string& text) {
    svg_ += Concat("<text x=\"", Decimals(x, 1), "\" y=\"", Decimals(y, 1), "\" ", attributes, ">",
                   Escaped(text), "</text>\n");
  }

  void DrawAxis() {
    const double length_ms = ToMilliseconds(options_.length);
    double step = 10;
    while (length_ms / step > 12) step *= step == 20 || step == 200 ? 2.5 : 2;
    for (double ms = 0; ms <= length_ms; ms += step) {
      const double x = X(options_.begin + Milliseconds(ms));
      svg_ += Concat("<path d=\"M", Decimals(x, 1), " 72V322\" stroke=\"#eeeeee\"/>\n");
      Text(x, 340, "text-anchor=\"middle\" fill=\"#666\"", Decimals(ms, 0) + " ms");
    }
  }

  void DrawBar(const Journal::Entry& entry, double top, const char* colour) {
    const double x = X(entry.begin);
    const double width = X(entry.end) - x;
    svg_ += Concat("<rect x=\"", Decimals(x, 1), "\" y=\"", top, "\" width=\"",
                   Decimals(std::max(1.0, width - 0.6), 1), "\" height=\"", kBarHeight,
                   "\" rx=\"2\" fill=\"", colour, "\"/>\n");
    if (width >= kNumberWidth) {
      Text(x + width / 2, top + 17, "text-anchor=\"middle\" fill=\"#222\"", Concat(entry.count));
    }
  }

  void DrawArrow(const Journal::Entry& entry, bool up) {
    const double device = kDeviceTop + kBarHeight + 3;
    const double server = kServerTop - 3;
    const bool is_hint = entry.what.starts_with("hint");
    svg_ += Concat("<path d=\"M", Decimals(X(entry.begin), 1), " ", up ? device : server, "L",
                   Decimals(X(entry.end), 1), " ", up ? server : device, "\" stroke=\"",
                   up ? kUpColour : kDownColour, "\" stroke-width=\"", up ? "0.8" : "1.6", "\"",
                   is_hint ? " stroke-dasharray=\"3 3\"" : "", "/>\n");
  }

  void DrawEntry(const Journal::Entry& entry) {
    const MonotonicTime end = options_.begin + options_.length;
    if (entry.end < options_.begin || entry.begin > end) return;
    if (entry.kind == Journal::Kind::kRun) return DrawBar(entry, kServerTop, kRunColour);
    if (entry.device != options_.device) return;
    switch (entry.kind) {
      case Journal::Kind::kDraft:
        return DrawBar(entry, kDeviceTop, kDraftColour);
      case Journal::Kind::kUp:
        return DrawArrow(entry, true);
      case Journal::Kind::kDown:
        return DrawArrow(entry, false);
      case Journal::Kind::kShown:
        svg_ += Concat("<path d=\"M", Decimals(X(entry.begin), 1), " ", kDeviceTop - 2,
                       "v-8\" stroke=\"", kTokenColour, "\" stroke-width=\"2\"/>\n");
        return Text(
            X(entry.begin), kDeviceTop - 13,
            Concat("text-anchor=\"middle\" font-weight=\"bold\" fill=\"", kTokenColour, "\""),
            Concat("+", entry.count));
      default:
        return;
    }
  }

  const Journal& journal_;
  const TimelineOptions& options_;
  std::string svg_;
};

}  // namespace

std::string ToSvg(const Journal& journal, const TimelineOptions& options) {
  return Drawing(journal, options).Draw();
}

}  // namespace outrider
