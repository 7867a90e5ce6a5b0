// The sessions that are held here, found by number, by name and by what opened them; and how long
// each is kept.
//
//   Add() --> found by all --Hide()--> found by number alone --Erase()--> gone
//
// One that loses its stream has a time to live. What is hidden stays until the run that it is in is
// over: the target may be looking at it.
//
// Memory:  per session its tokens and its sketch (verified_sequence.h).
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/monotonic_time.h"
#include "common/verification/machine/callers.h"
#include "common/verification/machine/deadlines.h"
#include "common/verification/machine/draft_here.h"
#include "common/verification/machine/draft_worth.h"
#include "common/verification/machine/exit_worth.h"
#include "common/verification/machine/row_worth.h"
#include "common/verification/machine/sequence_at_target.h"
#include "common/verification/machine/session_identity.h"
#include "common/verification/machine/session_pace.h"
#include "common/verification/machine/session_tally.h"
#include "common/verification/machine/verifier_events.h"
#include "common/verification/verified_sequence.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

struct VerifierStream;

struct VerifierSession {
  VerifierSession(uint64_t session_number, Caller& session_caller, const v1::Open& open,
                  size_t open_hash, const SessionIdentity::RandomBits& random_bits,
                  std::unique_ptr<VerifiedSequence> verified, bool shares_processor,
                  MonotonicTime now)
      : number(session_number),
        caller(session_caller),
        wants_hints(open.hints()),
        identity(open, open_hash, random_bits),
        sequence(std::move(verified)),
        pace(open.dry_policy(), shares_processor),
        tally(now) {}

  void Tune(const v1::Tune& tune) {
    pace.Tune(tune.dry_policy());
    sequence->Tune(tune);
    if (tune.has_hints()) wants_hints = tune.hints();
  }

  const uint64_t number;  // never given twice
  Caller& caller;
  bool wants_hints;
  SessionIdentity identity;
  const std::unique_ptr<VerifiedSequence> sequence;
  SessionPace pace;
  SessionTally tally;
  SequenceAtTarget at_target;
  DraftHere draft;
  KeptHere kept_here;  // of what is drafted so
  DraftRecord record;
  double promised = 0;              // of the running pass
  std::vector<HeardGuess> guesses;  // of the running pass, as they came
  VerifierStream* stream = nullptr;
  uint64_t bytes = 0;  // that its caller is charged with
  bool hidden = false;
  bool touched = false;  // Sessions::Touch()
  std::optional<MonotonicTime> due;
  bool expected = false;       // Sessions::Expect()
  MonotonicTime idle_since{};  // when it last was attached, edited, passed or lost its stream
  // When the last node came that the running pass has seen; none: it has seen none.
  std::optional<MonotonicTime> seen_at;
};

class Sessions {
 public:
  struct Limits {
    uint32_t session_count_max;
    uint32_t session_count_of_key_max;
    Duration time_to_live;
    bool shares_processor;  // VerifierConfig
  };

  // All outlive it.
  Sessions(const Limits& limits, const SessionIdentity::RandomBits& random_bits,
           const Moment& moment);

  // Beside so many to come of this caller, and of all.
  bool HasRoomFor(const Caller& caller, uint32_t of_caller = 0, uint32_t of_all = 0) const {
    return sessions_.size() + of_all < limits_.session_count_max &&
           caller.session_count + of_caller < MostOf(caller);
  }
  // That he may have at a time.
  uint32_t MostOf(const Caller& caller) const {
    return caller.terms.sessions_max > 0 ? caller.terms.sessions_max
                                         : limits_.session_count_of_key_max;
  }
  // For a new session, before it is there.
  uint64_t NextNumber() { return ++last_number_; }
  // There is room, and the caller has no session of this nonce.
  VerifierSession& Add(uint64_t number, Caller& caller, const v1::Open& open, size_t open_hash,
                       std::unique_ptr<VerifiedSequence> sequence);
  // What it keeps may have become more, or less.
  void Charge(VerifierSession& session);
  void Hide(VerifierSession& session);
  void Erase(VerifierSession& session);

  // Null: none is found.
  VerifierSession* Find(uint64_t number) const;
  VerifierSession* FindOpened(const Caller& caller, const v1::Open& open) const;
  VerifierSession* FindResumed(const Caller& caller, const v1::Resume& resume) const;

  // Something has changed that may let its next pass begin, and so its use for memory: it is among
  // those that TakeTouched() visits, in the order in which they were opened.
  void Touch(VerifierSession& session);
  template <typename Visitor>
  void TakeTouched(Visitor visit);
  // Whether it has a use for its memory at the target may have changed: it is among those that
  // TakeChangedUse() visits, in any order.
  void UseMayHaveChanged(const VerifierSession& session) { changed_use_.insert(session.number); }
  bool HasChangedUse(const VerifierSession& session) const {
    return changed_use_.contains(session.number);
  }
  template <typename Visitor>
  void TakeChangedUse(Visitor visit);
  // Whether it wants nothing of the target now, and may want a pass at any moment; and when, as far
  // as that is known.
  void Expect(VerifierSession& session, bool expected, std::optional<MonotonicTime> due = {});
  uint32_t expected_count() const { return expected_count_; }
  // When those that are expected are due, the soonest first.
  const std::set<std::pair<MonotonicTime, uint64_t>>& due() const { return due_; }

  // It has lost its stream: its time to live begins.
  void Detached(VerifierSession& session);
  // It is to be thought of again no later than then.
  void WakeNoLater(const VerifierSession& session, MonotonicTime at);
  // One whose time to live is over. Null: nobody's is.
  VerifierSession* NextExpired();
  std::optional<MonotonicTime> first_deadline() const { return deadlines_.first(); }

  size_t size() const { return sessions_.size(); }
  // That all of them keep (VerifiedSequence::bytes()).
  uint64_t bytes() const { return bytes_; }
  VerifierSession& any() const { return *sessions_.begin()->second; }

  // In the order in which they were opened. None may be added or erased meanwhile.
  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const auto& [number, session] : sessions_) visit(*session);
  }

  // For tests.
  void CheckInvariants() const;

 private:
  const Limits limits_;
  const SessionIdentity::RandomBits& random_bits_;
  const Moment& moment_;
  std::map<uint64_t, std::unique_ptr<VerifierSession>> sessions_;
  uint64_t bytes_ = 0;
  absl::flat_hash_set<uint64_t> changed_use_;
  std::vector<uint64_t> touched_;
  std::vector<uint64_t> taken_;  // working memory of TakeTouched()
  uint32_t expected_count_ = 0;
  std::set<std::pair<MonotonicTime, uint64_t>> due_;
  absl::flat_hash_map<std::string, VerifierSession*> by_id_;
  std::map<std::pair<uint64_t, uint64_t>, VerifierSession*> by_nonce_;  // of a caller
  uint64_t last_number_ = 0;
  Deadlines deadlines_;
};

template <typename Visitor>
void Sessions::TakeChangedUse(Visitor visit) {
  for (const uint64_t number : changed_use_) visit(*Find(number));
  changed_use_.clear();
}

// Whoever is touched by a visit is among the next ones.
template <typename Visitor>
void Sessions::TakeTouched(Visitor visit) {
  taken_.clear();
  taken_.swap(touched_);
  std::ranges::sort(taken_);
  for (const uint64_t number : taken_) {
    VerifierSession* const session = Find(number);
    if (session == nullptr) continue;
    session->touched = false;
    visit(*session);
  }
}

}  // namespace outrider
