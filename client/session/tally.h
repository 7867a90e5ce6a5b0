// Counts what a session does, and remembers the newest hint to know what hints were worth.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "client/session/session_options.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/drafting/outcome_posterior.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Tally {
 public:
  // `is_grown`: what the hint names has children already.
  void Hinted(const OutcomePosterior::Hint& hint, bool is_grown);
  // Another pass is under way, or none.
  void ForgetHint() { hint_.reset(); }
  // A verdict, which commits `tokens`; of no leaf where they were drafted elsewhere. `is_grown`: the
  // new root has children.
  HintWorth Decided(const v1::Verdict& verdict, std::optional<NodeId> leaf,
                    std::span<const TokenId> tokens, bool is_grown);

  // What needs no remembering is counted where it happens.
  SessionStats& stats() { return stats_; }
  const SessionStats& stats() const { return stats_; }

 private:
  SessionStats stats_;
  std::optional<OutcomePosterior::Hint> hint_;  // of the pass under way
  bool was_grown_before_hint_ = false;          // what it names
};

}  // namespace outrider
