// A drafter whose batches are written down in a session's trace.
//
// Threads: as the drafter's.
#pragma once

#include <span>

#include "client/driver/session_trace.h"
#include "common/base/clock.h"
#include "common/speculation/drafting/drafter.h"

namespace outrider {

class TracedDrafter final : public Drafter {
 public:
  // Both outlive it.
  TracedDrafter(Drafter& drafter, SessionTrace& trace) : drafter_(drafter), trace_(trace) {}

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& cancellation) override {
    const MonotonicTime begin = RealClock().Now();
    absl::Status status = drafter_.Propose(committed, nodes, contexts, proposals, cancellation);
    trace_.Drafted(nodes.size(), contexts.size(), begin, RealClock().Now());
    return status;
  }

 private:
  Drafter& drafter_;
  SessionTrace& trace_;
};

}  // namespace outrider
