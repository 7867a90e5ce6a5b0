#include "common/verification/machine/session_memory.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

// Who waits for memory is thought of again that often.
constexpr Duration kQueuePeriod = std::chrono::seconds(1);

}  // namespace

SessionMemory::SessionMemory(const MemoryLender::Stock& stock, bool forks_share_pages,
                             Sessions& sessions, Callers& callers, NextRun& run)
    : forks_share_pages_(forks_share_pages),
      sessions_(sessions),
      callers_(callers),
      run_(run),
      lender_(stock) {}

// --- lending ---

std::optional<SessionMemory::Lent> SessionMemory::Borrow(uint64_t session, const Caller& caller,
                                                         const VerifiedSequence& sequence,
                                                         MonotonicTime now) {
  const auto prefix = FindPrefix(caller, sequence.history());
  Lent lent;
  if (prefix) {
    lent.fork = {*AtTarget(prefix->session).id(), PrefixIndex::TokensOf(prefix->page_count)};
  }
  const bool has_lent = lender_.Borrow(
      session, NeedOf(caller, sequence), prefix, now, [this] { TellIdle(); }, evicted_);
  if (!has_lent) return std::nullopt;
  if (prefix && std::erase(evicted_, prefix->session) > 0) {
    lent.takes_over = true;
    Forget(prefix->session);
  }
  CloseEvicted();
  return lent;
}

std::optional<MemoryLender::Prefix> SessionMemory::FindPrefix(const Caller& caller,
                                                              const TokenHistory& history) const {
  const auto is_same = [&](const PrefixIndex::Found& found) {
    const auto length = PrefixIndex::TokensOf(found.page_count);
    return std::ranges::equal(TokensOf(found.session).first(length),
                              history.tokens().first(length));
  };
  const auto found = prefixes_.Find(caller.number, history, is_same);
  if (!found) return std::nullopt;
  return MemoryLender::Prefix{found->session, found->page_count};
}

void SessionMemory::Begin(VerifierSession& session, const Lent& lent) {
  sessions_.UseMayHaveChanged(session);
  if (!lent.fork) return;
  session.at_target.BeginAs(*lent.fork, lent.takes_over);
  shared_token_count_ += lent.fork->length;
  if (!lent.takes_over) forks_.insert(session.number);
}

std::vector<uint64_t> SessionMemory::TakeForks() {
  std::vector<uint64_t> forks;
  for (const uint64_t session : std::exchange(forks_, {})) {
    const VerifierSession* const found = sessions_.Find(session);
    if (found && found->at_target.awaits_fork()) forks.push_back(session);
  }
  return forks;
}

bool SessionMemory::MayWait(const Caller& caller, const VerifiedSequence& sequence) const {
  return lender_.MayWait(NeedOf(caller, sequence));
}

// For its longest history, and the nodes of a pass behind it.
MemoryLender::Need SessionMemory::NeedOf(const Caller& caller, const VerifiedSequence& sequence) {
  return {sequence.length_max(), sequence.pass_nodes(), caller.number};
}

void SessionMemory::Queue(const VerifierSession& session) {
  if (!session.sequence->writing()) return;
  if (lender_.Queue(session.number, session.caller.number)) MayHaveRoom();
}

void SessionMemory::LeaveQueue(const VerifierSession& session) {
  lender_.LeaveQueue(session.number);
  MayHaveRoom();
}

void SessionMemory::ServeQueue(MonotonicTime now) {
  if (!lender_.first_waiting() || (!may_have_room_ && now < next_try_)) return;
  may_have_room_ = false;
  next_try_ = now + kQueuePeriod;
  while (const auto first = lender_.first_waiting()) {
    VerifierSession& session = *sessions_.Find(*first);
    const auto lent = Borrow(*first, session.caller, *session.sequence, now);
    if (!lent) return;
    Begin(session, *lent);
    sessions_.Touch(session);
  }
}

const VerifierSession* SessionMemory::first_waiting() const {
  const auto first = lender_.first_waiting();
  return first ? sessions_.Find(*first) : nullptr;
}

// --- what becomes of it ---

void SessionMemory::Truncated(VerifierSession& session, uint32_t length, MonotonicTime now) {
  MayHaveRoom();
  session.at_target.Truncate(length);
  Learned(session);
  if (!Has(session)) return;
  // The last token is the root, which is computed again.
  const uint32_t first = length > 0 ? (length - 1) / kPageTokens : 0;
  const bool owns = lender_.Own(
      session.number, first, now, [this] { TellIdle(); }, evicted_);
  sessions_.UseMayHaveChanged(session);
  CloseEvicted();
  if (owns) return;
  lender_.Return(session.number);
  Close(session.number);
}

void SessionMemory::Learned(const VerifierSession& session) {
  if (!forks_share_pages_) return;
  prefixes_.Keep(session.number, session.caller.number, session.sequence->history(),
                 session.at_target.computed_count());
}

void SessionMemory::Release(VerifierSession& session, MonotonicTime now) {
  LeaveQueue(session);
  if (IsWorthKeeping(session)) {
    const std::span<const TokenId> tokens = session.sequence->history().tokens();
    kept_.emplace(session.number, Kept{session.caller,
                                       {tokens.begin(), tokens.end()},
                                       std::exchange(session.at_target, {}),
                                       now});
    lender_.SetIdle(session.number, Idle{.since = now, .from = now});
    kept_order_.push_back(session.number);
    ++session.caller.kept_count;
    return;
  }
  lender_.Return(session.number);
  Close(session.number);
}

bool SessionMemory::IsWorthKeeping(const VerifierSession& session) const {
  return Has(session) && session.at_target.exists() && prefixes_.Has(session.number);
}

void SessionMemory::DropKeptBefore(MonotonicTime then) {
  while (!kept_order_.empty()) {
    const uint64_t first = kept_order_.front();
    const auto found = kept_.find(first);
    if (found != kept_.end() && found->second.since >= then) return;
    kept_order_.pop_front();
    if (found == kept_.end()) continue;
    lender_.Return(first);
    Close(first);
  }
}

// Who was at work waits for memory at once, and is served when others have given some back.
void SessionMemory::CloseEvicted() {
  for (const uint64_t session : evicted_) {
    const VerifierSession* const found =
        kept_.contains(session) ? nullptr : sessions_.Find(session);
    const bool is_at_work = found != nullptr && IdleOf(*found) == MemoryLender::kAtWork;
    Close(session);
    if (is_at_work) Queue(*found);
  }
  evicted_.clear();
}

void SessionMemory::Close(uint64_t session) {
  MayHaveRoom();
  if (const auto sequence = Forget(session)) run_.Close(*sequence);
}

std::optional<SequenceId> SessionMemory::Forget(uint64_t session) {
  prefixes_.Forget(session);
  const auto kept = kept_.find(session);
  if (kept == kept_.end()) {
    VerifierSession& found = *sessions_.Find(session);
    sessions_.Expect(found, false);
    return found.at_target.Forget();
  }
  const std::optional<SequenceId> sequence = kept->second.at_target.Forget();
  Caller& caller = kept->second.caller;
  kept_.erase(kept);
  --caller.kept_count;
  callers_.ForgetIfUnused(caller);
  return sequence;
}

// --- who has what ---

// Of all others the lender knows.
void SessionMemory::TellIdle() {
  sessions_.TakeChangedUse(
      [this](const VerifierSession& session) { lender_.SetIdle(session.number, IdleOf(session)); });
}

std::optional<SessionMemory::Idle> SessionMemory::IdleOf(const VerifierSession& session) const {
  if (session.at_target.in_run()) return std::nullopt;
  return when_idle_(session);
}

const SequenceAtTarget& SessionMemory::AtTarget(uint64_t session) const {
  const auto kept = kept_.find(session);
  return kept != kept_.end() ? kept->second.at_target : sessions_.Find(session)->at_target;
}

std::span<const TokenId> SessionMemory::TokensOf(uint64_t session) const {
  const auto kept = kept_.find(session);
  if (kept != kept_.end()) return kept->second.tokens;
  return sessions_.Find(session)->sequence->history().tokens();
}

void SessionMemory::CheckInvariants() const {
  lender_.CheckInvariants();
  for (const auto& [session, kept] : kept_) {
    OUTRIDER_CHECK(lender_.HasLent(session) && kept.at_target.exists(),
                   "what is kept is at the target, in memory that is reserved");
    OUTRIDER_CHECK(lender_.IdleOf(session) == (Idle{.since = kept.since, .from = kept.since}),
                   "what is kept may be had by others");
  }
  sessions_.ForEach([this](const VerifierSession& session) {
    OUTRIDER_CHECK(!session.at_target.exists() || Has(session),
                   "what is at the target has its memory reserved");
    OUTRIDER_CHECK(!Has(session) || sessions_.HasChangedUse(session) ||
                       lender_.IdleOf(session.number) == IdleOf(session),
                   "who is idle is known, or asked again");
  });
}

}  // namespace outrider
