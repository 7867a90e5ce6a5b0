#include "bench/simulator/studies/timeline.h"

#include <algorithm>

#include "bench/simulator/world/time_profile.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/drawing/svg.h"

namespace outrider {
namespace {

constexpr double kWidth = 1180;
constexpr double kHeight = 400;
constexpr double kLeft = 78;
constexpr double kRight = 1150;
constexpr double kLegend = 82;
constexpr double kDeviceTop = 136;  // of the draft's bars
constexpr double kServerTop = 308;
constexpr double kBarHeight = 26;
constexpr double kAxis = 344;
constexpr double kDigitWidth = 7;  // bars that are too narrow have no number in them

constexpr const char* kDraftColour = "#56b4e9";
constexpr const char* kRunColour = "#e69f00";
constexpr const char* kUpColour = "#0072b2";
constexpr const char* kDownColour = "#d55e00";
constexpr const char* kTokenColour = "#006b4f";

constexpr const char* kUpStroke = "stroke-width=\"0.9\"";
constexpr const char* kDownStroke = "stroke-width=\"2.2\"";
constexpr const char* kHintStroke = "stroke-width=\"1.4\" stroke-dasharray=\"3 3\"";

class Drawing {
 public:
  Drawing(const Journal& journal, const TimelineOptions& options)
      : journal_(journal), options_(options), begin_(options.zero + options.from) {}

  std::string Draw() {
    svg_ = PageBegin(kWidth, kHeight, options_.title, options_.subtitle);
    svg_ += Concat("<clipPath id=\"frame\"><rect x=\"", kLeft, "\" y=\"96\" width=\"",
                   kRight - kLeft, "\" height=\"", kAxis - 96, "\"/></clipPath>\n");
    DrawLegend();
    svg_ += TextAt(20, kDeviceTop + 18, "font-size=\"13\"", "device");
    svg_ += TextAt(20, kServerTop + 18, "font-size=\"13\"", "server");
    DrawAxis();
    svg_ += "<g clip-path=\"url(#frame)\">\n";
    for (const Journal::Entry& entry : journal_.entries()) DrawEntry(entry);
    return svg_ + "</g>\n" + kPageEnd;
  }

 private:
  double X(MonotonicTime at) const {
    return kLeft + (kRight - kLeft) * ToMilliseconds(at - begin_) / ToMilliseconds(options_.length);
  }

  // Samples of everything there is, each with what it means to the right of it.
  void DrawLegend() {
    const auto bar = [&](double x, const char* colour, const char* number, const char* meaning) {
      svg_ += Concat("<rect x=\"", x, "\" y=\"", kLegend - 13,
                     "\" width=\"24\" height=\"17\" rx=\"2\" ", "fill=\"", colour, "\"/>\n");
      svg_ += TextAt(x + 12, kLegend, "text-anchor=\"middle\"", number);
      svg_ += TextAt(x + 30, kLegend, "", meaning);
    };
    bar(20, kDraftColour, "8", "draft runs a batch of 8 nodes");
    bar(262, kRunColour, "5", "target runs a pass of 5 rows");
    DrawArrowSample(490, kUpColour, /*up=*/true, kUpStroke, "message up: growth");
    DrawArrowSample(664, kDownColour, /*up=*/false, kDownStroke, "message down: verdict");
    DrawArrowSample(858, kDownColour, /*up=*/false, kHintStroke, "hint");
    svg_ += TextAt(930, kLegend, Concat("font-weight=\"bold\" fill=\"", kTokenColour, "\""), "+2");
    svg_ += TextAt(954, kLegend, "", "two tokens are shown to the user");
  }

  void DrawArrowSample(double x, const char* colour, bool up, const char* stroke,
                       const char* meaning) {
    svg_ += Concat("<path d=\"M", x, " ", up ? kLegend - 14 : kLegend + 4, "l12 ", up ? 18 : -18,
                   "\" stroke=\"", colour, "\" ", stroke, "/>\n");
    svg_ += TextAt(x + 18, kLegend, "", meaning);
  }

  void DrawAxis() {
    const double length_ms = ToMilliseconds(options_.length);
    double step = 10;
    while (length_ms / step > 12) step *= step == 20 || step == 200 ? 2.5 : 2;
    for (double ms = 0; ms <= length_ms; ms += step) {
      const double x = X(begin_ + Milliseconds(ms));
      svg_ += Concat("<path d=\"M", Number(x), " 112V", kAxis, "\" stroke=\"#e4e4e4\"/>\n");
      svg_ += TextAt(x, kAxis + 18, "text-anchor=\"middle\"",
                     Number(ToMilliseconds(options_.from) + ms));
    }
    svg_ += TextAt((kLeft + kRight) / 2, kAxis + 40, "text-anchor=\"middle\" font-size=\"13\"",
                   "time, ms");
  }

  void DrawBar(const Journal::Entry& entry, double top, const char* colour) {
    const double x = X(entry.begin);
    const double width = X(entry.end) - x;
    svg_ += Concat("<rect x=\"", Fixed(x, 1), "\" y=\"", top, "\" width=\"",
                   Fixed(std::max(1.0, width - 0.6), 1), "\" height=\"", kBarHeight,
                   "\" rx=\"2\" fill=\"", colour, "\"/>\n");
    const std::string count = Concat(entry.count);
    if (width >= kDigitWidth * static_cast<double>(count.size()) + 4) {
      svg_ += TextAt(x + width / 2, top + 17, "text-anchor=\"middle\"", count);
    }
  }

  void DrawArrow(const Journal::Entry& entry, bool up) {
    const double device = kDeviceTop + kBarHeight + 3;
    const double server = kServerTop - 3;
    const bool is_hint = entry.what.starts_with("hint");
    svg_ += Concat("<path d=\"M", Fixed(X(entry.begin), 1), " ", up ? device : server, "L",
                   Fixed(X(entry.end), 1), " ", up ? server : device, "\" stroke=\"",
                   up ? kUpColour : kDownColour, "\" ",
                   up ? kUpStroke : (is_hint ? kHintStroke : kDownStroke), "/>\n");
  }

  void DrawEntry(const Journal::Entry& entry) {
    const MonotonicTime end = begin_ + options_.length;
    if (entry.end < begin_ || entry.begin > end) return;
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
        svg_ += Concat("<path d=\"M", Fixed(X(entry.begin), 1), " ", kDeviceTop - 2,
                       "v-8\" stroke=\"", kTokenColour, "\" stroke-width=\"2\"/>\n");
        svg_ += TextAt(
            X(entry.begin), kDeviceTop - 13,
            Concat("text-anchor=\"middle\" font-weight=\"bold\" fill=\"", kTokenColour, "\""),
            Concat("+", entry.count));
        return;
      default:
        return;
    }
  }

  const Journal& journal_;
  const TimelineOptions& options_;
  const MonotonicTime begin_;
  std::string svg_;
};

}  // namespace

std::string ToSvg(const Journal& journal, const TimelineOptions& options) {
  return Drawing(journal, options).Draw();
}

}  // namespace outrider
