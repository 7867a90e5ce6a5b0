// When a session's next pass begins, by what its device asked for (DryPolicy) and by when growth
// has been coming.
//
//   told `go`   at once, whatever the policy
//   TURNS       not before
//   WAIT        at once when the root has children; else when it gets some
//   ADAPTIVE    as WAIT, but a dry root is waited for no longer than that is worth (dry_wait.h);
//               the pass alone then takes rows that nobody else wants. Where draft and target share
//               a processor, it is as WAIT: what the target gained, the draft would lose
//   ALONE       whether there are children or not, but for growth that is due so soon that the pass
//               is better begun with it (growth_due.h)
//
// Memory:  a few kilobytes, taken when it is made.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/speculation/costs/growth_due.h"
#include "common/verification/machine/dry_wait.h"
#include "common/verification/machine/joining.h"
#include "common/verification/verified_sequence.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class SessionPace {
 public:
  struct Start {
    std::optional<MonotonicTime> at;  // past or to come; none: not before something is said
    bool can_wait = false;            // for a run that has rows to spare
  };

  SessionPace(v1::DryPolicy policy, bool shares_processor)
      : shares_processor_(shares_processor), policy_(policy) {}

  void Tune(v1::DryPolicy policy) { policy_ = policy; }

  // The root is a new one, or has a device again that may grow it. `pass`: what passes
  // take; none: not known yet.
  void RootKnown(const VerifiedSequence& sequence, std::optional<DryWait::PassTime> pass,
                 MonotonicTime now);
  // `grow` has been taken in.
  void Grown(const v1::Grow& grow, const VerifiedSequence& sequence, MonotonicTime now);
  // A pass begins, whether or not the target finds nodes that are worth their rows.
  void Begins(const VerifiedSequence& sequence, MonotonicTime now);
  // Others' run begins, which it does not join.
  void LetPass() { joining_.LetPass(); }
  // It was over so many drafted nodes, and has committed so many tokens.
  void Yielded(uint32_t nodes, uint32_t tokens);

  // Of a sequence that is writing.
  Start NextStart(const VerifiedSequence& sequence) const;
  // When growth is due without which its pass does not begin; none: nobody knows.
  std::optional<MonotonicTime> GrowthAt() const { return dry_.GrowthAt(); }
  // Of a sequence whose pass does not begin yet: whether its root takes part in a run that others
  // begin now.
  bool Joins(const VerifiedSequence& sequence, const Joining::Run& run, MonotonicTime now) const;

  // When the newest node came.
  MonotonicTime last_growth() const { return last_growth_; }

 private:
  bool waits() const {
    return policy_ == v1::DRY_POLICY_WAIT ||
           (policy_ == v1::DRY_POLICY_ADAPTIVE && shares_processor_);
  }

  const bool shares_processor_;
  v1::DryPolicy policy_;
  MonotonicTime last_growth_{};
  DryWait dry_;
  GrowthDue due_;
  Joining joining_;
  bool began_grown_ = false;
};

}  // namespace outrider
