#include "common/verification/machine/session_memory.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

SessionMemory::SessionMemory(const MemoryLender::Stock& stock, bool forks_share_pages,
                             const Sessions& sessions, NextRun& run)
    : forks_share_pages_(forks_share_pages), sessions_(sessions), run_(run), lender_(stock) {}

// --- lending ---

std::optional<SessionMemory::Lent> SessionMemory::Borrow(uint64_t session, const Caller& caller,
                                                         const VerifiedSequence& sequence) {
  const auto prefix = FindPrefix(caller, sequence.history());
  Lent lent;
  if (prefix) {
    const SequenceAtTarget& other = sessions_.Find(prefix->session)->at_target;
    lent.fork = {*other.id(), PrefixIndex::TokensOf(prefix->page_count)};
  }
  // For its longest history, and the nodes of a pass behind it.
  const bool has_lent = lender_.Borrow(
      session, {sequence.length_max(), sequence.pass_nodes()}, prefix,
      [this](uint64_t lender) { return IdleSince(lender); }, evicted_);
  if (!has_lent) return std::nullopt;
  if (prefix && std::erase(evicted_, prefix->session) > 0) {
    lent.takes_over = true;
    Forget(*sessions_.Find(prefix->session));
  }
  CloseEvicted();
  return lent;
}

std::optional<MemoryLender::Prefix> SessionMemory::FindPrefix(const Caller& caller,
                                                              const TokenHistory& history) const {
  const auto is_same = [&](const PrefixIndex::Found& found) {
    const auto length = PrefixIndex::TokensOf(found.page_count);
    const std::span<const TokenId> theirs =
        sessions_.Find(found.session)->sequence->history().tokens();
    return std::ranges::equal(theirs.first(length), history.tokens().first(length));
  };
  const auto found = prefixes_.Find(caller.number, history, is_same);
  if (!found) return std::nullopt;
  return MemoryLender::Prefix{found->session, found->page_count};
}

void SessionMemory::Begin(VerifierSession& session, const Lent& lent) {
  if (!lent.fork) return;
  session.at_target.BeginAs(*lent.fork, lent.takes_over);
  shared_token_count_ += lent.fork->length;
  if (!lent.takes_over) forks_.push_back(session.number);
}

std::vector<uint64_t> SessionMemory::TakeForks() {
  std::vector<uint64_t> forks = std::exchange(forks_, {});
  std::erase_if(forks, [this](uint64_t session) {
    const VerifierSession* const found = sessions_.Find(session);
    return !found || !found->at_target.awaits_fork();
  });
  return forks;
}

void SessionMemory::Queue(const VerifierSession& session) {
  if (session.sequence->writing()) lender_.Queue(session.number);
}

void SessionMemory::ServeQueue() {
  while (const auto first = lender_.first_waiting()) {
    VerifierSession& session = *sessions_.Find(*first);
    const auto lent = Borrow(*first, session.caller, *session.sequence);
    if (!lent) return;
    Begin(session, *lent);
  }
}

// --- what becomes of it ---

void SessionMemory::Truncated(VerifierSession& session, uint32_t length) {
  session.at_target.Truncate(length);
  Learned(session);
  if (!Has(session)) return;
  // The last token is the root, which is computed again.
  const uint32_t first = length > 0 ? (length - 1) / kPageTokens : 0;
  const auto others_idle_since = [&](uint64_t lender) {
    return lender == session.number ? std::nullopt : IdleSince(lender);
  };
  const bool owns = lender_.Own(session.number, first, others_idle_since, evicted_);
  CloseEvicted();
  if (owns) return;
  lender_.Return(session.number);
  Close(session);
}

void SessionMemory::Learned(const VerifierSession& session) {
  if (!forks_share_pages_) return;
  prefixes_.Keep(session.number, session.caller.number, session.sequence->history(),
                 session.at_target.computed_count());
}

void SessionMemory::Release(VerifierSession& session) {
  lender_.LeaveQueue(session.number);
  lender_.Return(session.number);
  Close(session);
}

void SessionMemory::CloseEvicted() {
  for (const uint64_t session : evicted_) Close(*sessions_.Find(session));
  evicted_.clear();
}

void SessionMemory::Close(VerifierSession& session) {
  if (const auto sequence = Forget(session)) run_.Close(*sequence);
}

std::optional<SequenceId> SessionMemory::Forget(VerifierSession& session) {
  prefixes_.Forget(session.number);
  return session.at_target.Forget();
}

std::optional<MonotonicTime> SessionMemory::IdleSince(uint64_t session) const {
  const VerifierSession& found = *sessions_.Find(session);
  const bool is_idle = !found.stream || !found.sequence->writing();
  if (found.at_target.in_run() || !is_idle) return std::nullopt;
  return found.idle_since;
}

void SessionMemory::CheckInvariants() const {
  lender_.CheckInvariants();
  sessions_.ForEach([this](const VerifierSession& session) {
    OUTRIDER_CHECK(!session.at_target.exists() || Has(session),
                   "what is at the target has its memory reserved");
  });
}

}  // namespace outrider
