// Whether what the draft beside the target would do for a session is worth its time.
//
// A job takes d, and is done after those that were asked for before it. Until then its session's
// target stands by, which could have had a token of each run T; and where the draft computes on the
// target's own cores, all others have their runs the later for it. What it brings are the tokens of its
// chain that are kept, and each node of that costs a row (row_worth.h). So it is worth it while
//
//   kept  >  nodes * price  +  (jobs at work + 1) * d / T  +  d * what a second costs the others
//
// and a quarter more, as of a node. Else the session's target goes on alone, and has a row in the
// next run. With one session that leaves little to ask; where the cores are full of others' rows,
// each job would take from everybody more than it gives to one.
//
// d is learned from all jobs but those that read a prompt first, what is kept from a session's own
// passes: text that nobody could have drafted, or a device that goes back on its own, is a matter of
// that session. Where nothing is drafted what is known of that fades, and so it is tried again.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <utility>

#include "common/base/monotonic_time.h"
#include "common/base/recent_median.h"
#include "common/verification/machine/row_worth.h"

namespace outrider {

// Of one session.
class KeptHere {
 public:
  // A job has come to a chain for the next pass, or came too late for anything.
  void Came() { came_ = true; }
  void Missed() { Learn(0, 0, kNewest); }
  // A pass has taken so many nodes, of the chain if there was one, and has kept some of them.
  void Passed(uint32_t nodes, uint32_t kept) {
    if (std::exchange(came_, false)) Learn(nodes, kept, kNewest);
  }
  // A root of which nothing was drafted.
  void LeftOut() { Learn(kSupposedNodes, kSupposed, kForgetting); }

  double nodes() const { return nodes_; }
  double kept() const { return kept_; }

 private:
  static constexpr double kNewest = 1.0 / 8;
  static constexpr double kForgetting = 1.0 / 128;
  // Of a draft that nothing is known of.
  static constexpr double kSupposed = 2;
  static constexpr double kSupposedNodes = 3;

  void Learn(double nodes, double kept, double weight) {
    nodes_ += weight * (nodes - nodes_);
    kept_ += weight * (kept - kept_);
  }

  double nodes_ = kSupposedNodes;
  double kept_ = kSupposed;
  bool came_ = false;
};

class DraftWorth {
 public:
  // What everything costs now, in tokens but for the first.
  struct Prices {
    double run_seconds;       // T
    double row = 0;           // to all others
    double other_second = 0;  // of the target's cores, to all others; 0: the draft has its own
  };

  void Began() { ++at_work_; }
  // It was told so many tokens before it drafted.
  void Ended(uint32_t token_count, Duration took) {
    --at_work_;
    if (token_count <= kTokensOfVerdict) seconds_.Add(Seconds(took));
  }
  // Of a session that has gone: nobody hears whether it is done.
  void Dropped() { --at_work_; }
  uint32_t at_work() const { return at_work_; }

  bool IsWorthIt(const KeptHere& session, const Prices& prices) const {
    if (seconds_.empty()) return true;
    const double seconds = seconds_.Value();
    const double cost = session.nodes() * prices.row +
                        (at_work_ + 1) * seconds / prices.run_seconds +
                        seconds * prices.other_second;
    return session.kept() > RowWorth::kMargin * cost;
  }

 private:
  static constexpr uint32_t kTokensOfVerdict = 16;  // or of a few

  RecentMedian<9> seconds_;  // of a job
  uint32_t at_work_ = 0;
};

}  // namespace outrider
