// Whether what the draft beside the target would do for a session is worth its time.
//
// A job takes d, and is done after those that were asked for before it. Until then its session's
// target stands by, which could have had a token of each run T. What it brings are the tokens of its
// chain that are kept, and each node of that costs a row (row_worth.h). So it is worth it while
//
//   kept  >  nodes * price  +  tokens that its session goes without  +  d * what a second costs others
//
// and a quarter more, as of a node. Its session goes without (jobs at work + 1) * d / T tokens, or
// without as many as there are runs that begin before its chain is there, if that is more: where others
// keep the target at work, who comes a moment too late for a run waits for all of it. Others wait for d
// as far as runs wait for chains (gathering.h), or where the draft computes on the target's own cores.
//
// Else the session's target goes on alone, and has a row in the next run. With one session that leaves
// little to ask; where many keep the target at work, a job would take more than it gives.
//
// d is learned from all jobs but those that read a prompt first, what is kept from a session's own
// passes: text that nobody could have drafted, or a device that goes back on its own, is a matter of
// that session. Where nothing is drafted what is known of that fades, and so it is tried again.
//
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/monotonic_time.h"
#include "common/base/recent_median.h"
#include "common/verification/machine/row_worth.h"

namespace outrider {

// Of one session.
class KeptHere {
 public:
  // A job is asked for after so many runs. What came before is of another root, and was edited away.
  void Asked(uint64_t run_count) {
    came_ = false;
    asked_at_ = run_count;
  }
  // It has come to a chain for the next pass, or came too late for anything.
  void Came() { came_ = true; }
  void Missed() { Learn(0, 0, kNewest); }
  // A pass has taken so many nodes, of the chain if there was one, and has kept some of them.
  void Passed(uint32_t nodes, uint32_t kept) {
    if (std::exchange(came_, false)) Learn(nodes, kept, kNewest);
  }
  // A root of which nothing was drafted.
  void LeftOut() {
    came_ = false;
    Learn(kSupposedNodes, kSupposed, kForgetting);
  }

  // Where a chain waits for the run that begins after so many: those that began without it meanwhile.
  std::optional<uint64_t> RunsLetPass(uint64_t run_count) const {
    return came_ ? std::optional(run_count - asked_at_) : std::nullopt;
  }

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
  uint64_t asked_at_ = 0;
};

class DraftWorth {
 public:
  // What everything costs now, in tokens but for the first.
  struct Prices {
    double run_seconds;        // T
    double row = 0;            // to all others
    double other_second = 0;   // to all others
    bool takes_cores = false;  // the draft computes on the target's own
  };

  // After how long the next job, behind those that were asked for before it, is done or late; none:
  // not known. Half of all jobs take longer than their median.
  std::optional<Duration> DueOfNext() const {
    if (seconds_.empty()) return std::nullopt;
    const double jobs = at_work_ + 1 + kLateness * (at_work_ + 2);
    const std::chrono::duration<double> due(jobs * seconds_.Value());
    return std::chrono::duration_cast<Duration>(due);
  }
  void Began() { ++at_work_; }
  // It was told so many tokens before it drafted.
  void Ended(uint32_t token_count, Duration took) {
    --at_work_;
    if (token_count <= kTokensOfVerdict) seconds_.Add(Seconds(took));
  }
  // Of a session that has gone: nobody hears whether it is done.
  void Dropped() { --at_work_; }
  // A chain has its pass, after so many runs without its session.
  void LetPass(uint64_t run_count) {
    runs_let_pass_ += kNewest * (static_cast<double>(run_count) - runs_let_pass_);
  }
  // Of a root nothing was drafted, so nobody knows what that would have let pass.
  void LeftOut() { runs_let_pass_ *= 1 - kForgetting; }
  uint32_t at_work() const { return at_work_; }

  bool IsWorthIt(const KeptHere& session, const Prices& prices) const {
    if (seconds_.empty()) return true;
    const double until_done = (at_work_ + 1) * seconds_.Value();
    const double until_then = std::max(until_done / prices.run_seconds, runs_let_pass_);
    const double others_wait = prices.takes_cores ? 1 : std::max(0.0, 1 - runs_let_pass_);
    const double cost = session.nodes() * prices.row + until_then +
                        others_wait * seconds_.Value() * prices.other_second;
    return session.kept() > RowWorth::kMargin * cost;
  }

 private:
  static constexpr uint32_t kTokensOfVerdict = 16;  // or of a few

  static constexpr double kLateness = 0.25;  // of a job
  static constexpr double kNewest = 1.0 / 16;
  static constexpr double kForgetting = 1.0 / 1024;

  RecentMedian<9> seconds_;   // of a job
  double runs_let_pass_ = 0;  // by a chain
  uint32_t at_work_ = 0;
};

}  // namespace outrider
