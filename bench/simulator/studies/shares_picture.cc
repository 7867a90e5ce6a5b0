#include <algorithm>

#include "bench/simulator/studies/shares.h"
#include "bench/simulator/world/time_profile.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/drawing/svg.h"

namespace outrider {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 560;
constexpr double kLeft = 64;
constexpr double kRight = 640;  // names stand to the right of it
constexpr double kTop = 96;
constexpr double kBottom = 500;
constexpr double kNameHeight = 9;  // of lower bands there is no name

class Drawing {
 public:
  explicit Drawing(const Shares& shares)
      : shares_(shares), count_(shares.sessions.front().by_window.size()), below_(count_, 0.0) {}

  std::string Draw(const std::string& subtitle) {
    svg_ = PageBegin(kWidth, kHeight, "Shares of the target's time", subtitle);
    double fair = 0;
    for (size_t i = 0; i < shares_.sessions.size(); ++i) {
      DrawBand(i, fair);
      fair += shares_.sessions[i].fair;
    }
    DrawFairShares();
    DrawAxes();
    return svg_ + kPageEnd;
  }

 private:
  double X(size_t window) const {
    return kLeft + (kRight - kLeft) * static_cast<double>(window) / static_cast<double>(count_);
  }
  static double Y(double share) { return kBottom - (kBottom - kTop) * share; }

  // On top of those before it. Neighbours of one key have shades of one colour.
  void DrawBand(size_t i, double fair_below) {
    const Shares::Of& session = shares_.sessions[i];
    std::string top;
    std::string bottom;
    for (size_t window = 0; window < count_; ++window) {
      const double above = below_[window] + session.by_window[window];
      top += Concat(top.empty() ? "M" : "L", Number(X(window)), " ", Number(Y(above)), "H",
                    Number(X(window + 1)));
      bottom = Concat("L", Number(X(window + 1)), " ", Number(Y(below_[window])), "H",
                      Number(X(window)), bottom);
      below_[window] = above;
    }
    svg_ += Concat("<path d=\"", top, bottom, "Z\" fill=\"", StyleOf(session.key).colour,
                   "\" fill-opacity=\"", i % 2 == 0 ? "0.55" : "0.3",
                   "\" stroke=\"#ffffff\" stroke-width=\"1.2\"/>\n");
    const double height = (kBottom - kTop) * session.fair;
    if (height < kNameHeight) return;
    svg_ += TextAt(
        kRight + 14, Y(fair_below + session.fair / 2) + 4,
        Concat("font-size=\"", Number(std::min(12.0, height)), "\""),
        Concat(session.name, ": ", Fixed(100 * session.mean(), 1), " % (",
               Fixed(100 * session.least(), 1), " to ", Fixed(100 * session.most(), 1), ")"));
  }

  void DrawFairShares() {
    double fair = 0;
    for (const Shares::Of& session : shares_.sessions) {
      fair += session.fair;
      svg_ += Concat("<path d=\"M", kLeft, " ", Number(Y(fair)), "H", kRight + 8, "\" stroke=\"",
                     kInk, "\" stroke-width=\"1\" stroke-dasharray=\"4 4\"/>\n");
    }
  }

  void DrawAxes() {
    for (int percent = 0; percent <= 100; percent += 25) {
      const double y = Y(percent / 100.0);
      svg_ += Concat("<path d=\"M", kLeft - 5, " ", Number(y), "h5\" stroke=\"#888\"/>\n");
      svg_ += TextAt(kLeft - 9, y + 4, "text-anchor=\"end\"", Number(percent));
    }
    svg_ += TextAt(20, kTop - 16, "font-size=\"13\"",
                   "% of the time the target was busy; dashed: fair shares");
    const size_t step = std::max<size_t>(1, (count_ + 9) / 10);
    for (size_t window = 0; window <= count_; window += step) {
      svg_ += Concat("<path d=\"M", Number(X(window)), " ", kBottom, "v5\" stroke=\"#888\"/>\n");
      svg_ += TextAt(X(window), kBottom + 20, "text-anchor=\"middle\"",
                     Number(ToMilliseconds(shares_.window) / 1000 * static_cast<double>(window)));
    }
    svg_ += TextAt((kLeft + kRight) / 2, kBottom + 44, "text-anchor=\"middle\" font-size=\"13\"",
                   "time since all sessions were at work, s");
  }

  const Shares& shares_;
  const size_t count_;  // of windows
  std::vector<double> below_;
  std::string svg_;
};

}  // namespace

std::string ToSvg(const Shares& shares, const std::string& subtitle) {
  return Drawing(shares).Draw(subtitle);
}

}  // namespace outrider
