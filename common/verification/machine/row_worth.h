// What a drafted node has to promise to be worth its row, where sessions share a target.
//
// A row makes a run longer by what a row takes, and all text that the target writes later by as
// much: that delays as many tokens as it writes in that time. So a node belongs to a pass if the chance that
// the text passes it is above
//
//   tokens per second, of all sessions  *  seconds of a row
//
// Where rows cost next to nothing that is next to nothing, and so it is where the target mostly
// waits for its devices. Where it is asked for more than it has, all nodes there are bring text
// faster than the target would without them, and what would not is left out: who has drafted well gets
// more of it than who has not, whatever R they ask for.
//
// A node that would just pay for itself helps nobody, and may turn out to be worth less: it has to promise
// a little more. What a device says of its nodes is taken at its word only as far as it has come true
// (DraftRecord).
//
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/monotonic_time.h"
#include "common/base/recent_median.h"

namespace outrider {

class RowWorth {
 public:
  // What a node has to promise of what its row costs.
  static constexpr double kMargin = 1.15;

  // A run begins, so long after the one before it, which took `run_time` and has committed so many
  // tokens.
  void Ran(Duration since_before, Duration run_time, double tokens) {
    const Duration time = std::min(since_before, run_time + kPauseMax);
    seconds_.Add(std::chrono::duration<double>(time).count());
    tokens_.Add(tokens);
  }

  // What a row costs all others, in tokens. `row_seconds` is what it takes.
  double Price(double row_seconds) const {
    return seconds_.Value() > 0 ? row_seconds * tokens_.Value() / seconds_.Value() : 0;
  }
  // Of a node.
  double LeastChance(double row_seconds) const { return kMargin * Price(row_seconds); }

 private:
  // A night without anybody says nothing of the morning.
  static constexpr Duration kPauseMax = std::chrono::seconds(1);

  RecentMean seconds_;
  RecentMean tokens_;
};

// Whether what a device says of its nodes comes true.
class DraftRecord {
 public:
  // A pass over nodes of which so many were to be expected, by what was said, has committed `kept`.
  // One without nodes lets the past be forgotten, slowly: what is tried again costs others rows.
  void Passed(double promised, double kept) {
    const double newest = promised > 0 ? kNewest : kForgetting;
    promised_ += newest * (promised - promised_);
    kept_ += newest * (kept - kept_);
  }

  // What a chance it speaks of is to be multiplied with.
  double truth() const { return std::min(1.0, (kept_ + kSupposed) / (promised_ + kSupposed)); }

 private:
  static constexpr double kNewest = 1.0 / 16;
  static constexpr double kForgetting = 1.0 / 128;
  static constexpr double kSupposed = 0.25;  // tokens, until anything is known

  double promised_ = 0;
  double kept_ = 0;
};

}  // namespace outrider
