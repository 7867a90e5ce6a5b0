// What sessions have of the target's memory: who has some, who shares a beginning with whom, and
// who waits.
//
//   if (const auto lent = memory.Borrow(number, caller, sequence)) ...    // it may be opened
//   memory.Begin(session, *lent);
//   ...
//   memory.Learned(session);            // after a run: more of it is at the target
//   memory.Truncated(session, length);  // it is about to write anew from there
//   memory.Release(session);            // and when it is gone
//
// A session whose text begins as another one of the same key does, with whole pages that the target
// has computed, is not read from its beginning: its sequence is a fork of the other's, and both hold
// the pages (memory_lender.h). The fork is made when the target's next run begins, before
// anything else is done with the other's sequence, whatever becomes of that session meanwhile.
//
// What a session that has gone leaves at the target is kept for a while, for the next one of its key
// that begins alike (a robot says the same system prompt all day), unless its memory is needed.
//
// Memory:  memory_lender.h and prefix_index.h have it, and the tokens of what is kept.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/verification/machine/callers.h"
#include "common/verification/machine/memory_lender.h"
#include "common/verification/machine/next_run.h"
#include "common/verification/machine/prefix_index.h"
#include "common/verification/machine/sequence_at_target.h"
#include "common/verification/machine/sessions.h"
#include "common/verification/verified_sequence.h"

namespace outrider {

class SessionMemory {
 public:
  // What a session was lent, with the sequence its own begins as: a fork of it, or itself if it was
  // evicted for this session.
  struct Lent {
    std::optional<TargetFork> fork = {};
    bool takes_over = false;
  };

  // Of a session that is not in the run.
  using Idle = MemoryLender::Idle;
  using WhenIdle = std::function<Idle(const VerifierSession& session)>;

  // All but the stock outlive it.
  SessionMemory(const MemoryLender::Stock& stock, bool forks_share_pages, Sessions& sessions,
                Callers& callers, NextRun& run);

  // Before anything is lent. It is asked of a session again when Sessions have been told that this may
  // have changed (UseMayHaveChanged()).
  void SetWhenIdle(WhenIdle when_idle) { when_idle_ = std::move(when_idle); }

  // Tokens of a session that takes all there is, beside a pass of so many nodes.
  uint64_t LengthMax(uint32_t node_count) const { return lender_.LengthMax(node_count); }

  // For a session that is not there yet. None: there is no memory to be had.
  std::optional<Lent> Borrow(uint64_t session, const Caller& caller,
                             const VerifiedSequence& sequence, MonotonicTime now);
  // Whether one for whom there is none now may be there all the same, and wait: others have more.
  bool MayWait(const Caller& caller, const VerifiedSequence& sequence) const;
  // It is there.
  void Begin(VerifierSession& session, const Lent& lent);

  bool Has(const VerifierSession& session) const { return lender_.HasLent(session.number); }
  // It lost its memory, and has something to write.
  void Queue(const VerifierSession& session);
  void LeaveQueue(const VerifierSession& session);
  // Something has changed that may leave room: a session has become idle, or has gone.
  void MayHaveRoom() { may_have_room_ = true; }
  // Lends to those who wait, if anybody does and there may be room; once a second there may be all the
  // same, since those of whom nothing is heard become idle.
  void ServeQueue(MonotonicTime now);
  MonotonicTime next_try() const { return next_try_; }
  // Null: nobody waits.
  const VerifierSession* first_waiting() const;

  // Its tokens end at `length` now, and are written on from there.
  void Truncated(VerifierSession& session, uint32_t length, MonotonicTime now);
  // The target may have more of it.
  void Learned(const VerifierSession& session);
  // It is about to go. What it leaves is kept, if anybody could begin with that.
  void Release(VerifierSession& session, MonotonicTime now);
  // The target has failed at it: nobody is to begin with what it has.
  void Distrust(const VerifierSession& session) { prefixes_.Forget(session.number); }
  // What has been kept since before then is given up.
  void DropKeptBefore(MonotonicTime then);

  // Sessions whose fork waits for a run. Whoever asks begins it.
  std::vector<uint64_t> TakeForks();

  // Sessions that wait for some.
  size_t waiting_count() const { return lender_.waiting_count(); }
  // Of the pages, where the fewest are free: 0 to 1.
  double used() const { return lender_.used(); }
  uint64_t eviction_count() const { return lender_.eviction_count(); }
  // Tokens that were not read because another session had them.
  uint64_t shared_token_count() const { return shared_token_count_; }

  // For tests.
  void CheckInvariants() const;

 private:
  // What is left of a session that has gone.
  struct Kept {
    Caller& caller;
    std::vector<TokenId> tokens;
    SequenceAtTarget at_target;
    MonotonicTime since;
  };

  static MemoryLender::Need NeedOf(const Caller& caller, const VerifiedSequence& sequence);
  void TellIdle();
  std::optional<Idle> IdleOf(const VerifierSession& session) const;
  const SequenceAtTarget& AtTarget(uint64_t session) const;
  std::span<const TokenId> TokensOf(uint64_t session) const;
  bool IsWorthKeeping(const VerifierSession& session) const;
  std::optional<MemoryLender::Prefix> FindPrefix(const Caller& caller,
                                                 const TokenHistory& history) const;
  void CloseEvicted();
  void Close(uint64_t session);
  // Its sequence, if it has one, is whoever's calls.
  std::optional<SequenceId> Forget(uint64_t session);

  const bool forks_share_pages_;
  Sessions& sessions_;
  Callers& callers_;
  NextRun& run_;
  WhenIdle when_idle_;
  MemoryLender lender_;
  PrefixIndex prefixes_;
  std::map<uint64_t, Kept> kept_;    // by the number of the session that was
  std::deque<uint64_t> kept_order_;  // as they came; some have gone again
  // Once each, however often it had to give way and was lent some again since the newest run began.
  std::set<uint64_t> forks_;
  bool may_have_room_ = false;
  MonotonicTime next_try_{};
  uint64_t shared_token_count_ = 0;
  std::vector<uint64_t> evicted_;  // working memory
};

}  // namespace outrider
