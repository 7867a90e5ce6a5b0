// What a drafted node has to promise to be worth its row, where sessions share a target.
//
// A row makes a run longer by what a row takes, and all text that the target writes later by as
// much: that delays as many tokens as it writes in that time. So a node belongs to a pass if the chance that
// the text passes it is above
//
//   tokens per second, of all sessions  *  seconds of a row
//
// which are those of a row where each of them has one more than its root (Scheduler::NodeSeconds):
// rows come in steps, and the next one alone may cost nothing, or as much as ten. The tokens are those
// of late, or as many as there would be if nobody drafted and whoever is at work had its root in
// every run: while prompts are read there is little text, and what rows delay then is the text that
// is to come.
//
// Where rows cost next to nothing that is next to nothing, and so it is where the target mostly
// waits for its devices. Where it is asked for more than it has, all nodes there are bring text
// faster than the target would without them, and what would not is left out: who has drafted well gets
// more of it than who has not, whatever R they ask for.
//
// A node that would just pay for itself helps nobody, and may turn out to be worth less: it has to promise
// a quarter more. What a device says of its nodes is taken at its word only as far as it has come true
// (DraftRecord).
//
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/monotonic_time.h"
#include "common/base/recent_median.h"
#include "common/verification/machine/run_time.h"

namespace outrider {

class RowWorth {
 public:
  // What a node has to promise of what its row costs.
  static constexpr double kMargin = 1.25;

  // A run begins, so long after the one before it, which took `run_time` and has committed so many
  // tokens.
  void Ran(Duration since_before, Duration run_time, double tokens) {
    seconds_.Add(Seconds(std::min(since_before, run_time + kPauseMax)));
    tokens_.Add(tokens);
  }

  // What a second costs all others, in tokens, where so many sessions are at work.
  double SecondPrice(const RunTime::Line& run, uint32_t session_count) const {
    const double of_late = seconds_.Value() > 0 ? tokens_.Value() / seconds_.Value() : 0;
    const double undrafted = session_count / (run.run_seconds + session_count * run.row_seconds);
    return std::max(of_late, undrafted);
  }

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
