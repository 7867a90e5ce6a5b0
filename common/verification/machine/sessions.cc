#include "common/verification/machine/sessions.h"

#include <utility>

#include "common/base/check.h"

namespace outrider {

Sessions::Sessions(const Limits& limits, const SessionIdentity::RandomBits& random_bits,
                   const Moment& moment)
    : limits_(limits), random_bits_(random_bits), moment_(moment) {}

VerifierSession& Sessions::Add(uint64_t number, Caller& caller, const v1::Open& open,
                               size_t open_hash, std::unique_ptr<VerifiedSequence> sequence) {
  OUTRIDER_CHECK(HasRoomFor(caller), "sessions are bounded");
  auto added =
      std::make_unique<VerifierSession>(number, caller, open, open_hash, random_bits_,
                                        std::move(sequence), limits_.shares_processor, moment_.now);
  VerifierSession& session = *added;
  ++caller.session_count;
  by_id_.insert({session.identity.id(), &session});
  const bool is_new = by_nonce_.insert({{caller.number, open.nonce()}, &session}).second;
  OUTRIDER_CHECK(is_new, "a nonce opens one session");
  sessions_.insert({number, std::move(added)});
  Charge(session);
  return session;
}

void Sessions::Charge(VerifierSession& session) {
  const uint64_t before = std::exchange(session.bytes, session.sequence->bytes());
  session.caller.session_bytes += session.bytes - before;
  bytes_ += session.bytes - before;
}

void Sessions::Hide(VerifierSession& session) {
  if (session.hidden) return;
  by_id_.erase(session.identity.id());
  by_nonce_.erase({session.caller.number, session.identity.nonce()});
  session.hidden = true;
}

void Sessions::Erase(VerifierSession& session) {
  OUTRIDER_CHECK(session.hidden && !session.at_target.in_run(), "nobody looks at what is erased");
  deadlines_.Remove(session.number);
  changed_use_.erase(session.number);
  Expect(session, false);
  --session.caller.session_count;
  session.caller.session_bytes -= session.bytes;
  bytes_ -= session.bytes;
  sessions_.erase(session.number);
}

VerifierSession* Sessions::Find(uint64_t number) const {
  const auto found = sessions_.find(number);
  return found == sessions_.end() ? nullptr : found->second.get();
}

VerifierSession* Sessions::FindOpened(const Caller& caller, const v1::Open& open) const {
  const auto found = by_nonce_.find({caller.number, open.nonce()});
  return found == by_nonce_.end() ? nullptr : found->second;
}

VerifierSession* Sessions::FindResumed(const Caller& caller, const v1::Resume& resume) const {
  const auto found = by_id_.find(resume.session());
  if (found == by_id_.end()) return nullptr;
  VerifierSession& session = *found->second;
  return &session.caller == &caller && session.identity.Admits(resume) ? &session : nullptr;
}

void Sessions::Touch(VerifierSession& session) {
  UseMayHaveChanged(session);
  if (std::exchange(session.touched, true)) return;
  touched_.push_back(session.number);
}

void Sessions::Expect(VerifierSession& session, bool expected, std::optional<MonotonicTime> due) {
  if (session.due) due_.erase({*session.due, session.number});
  session.due = due;
  if (due) due_.insert({*due, session.number});
  if (std::exchange(session.expected, expected) == expected) return;
  expected_count_ += expected ? 1 : -1;
}

void Sessions::Detached(VerifierSession& session) {
  UseMayHaveChanged(session);
  session.idle_since = moment_.now;
  deadlines_.SetNoLater(session.number, moment_.now + limits_.time_to_live);
}

void Sessions::WakeNoLater(const VerifierSession& session, MonotonicTime at) {
  deadlines_.SetNoLater(session.number, at);
}

VerifierSession* Sessions::NextExpired() {
  while (const std::optional<uint64_t> number = deadlines_.TakeDue(moment_.now)) {
    VerifierSession& session = *sessions_.at(*number);
    if (session.stream) Touch(session);
    if (session.stream || session.hidden) continue;
    const MonotonicTime deadline = session.idle_since + limits_.time_to_live;
    if (moment_.now >= deadline) return &session;
    deadlines_.SetNoLater(*number, deadline);
  }
  return nullptr;
}

void Sessions::CheckInvariants() const {
  OUTRIDER_CHECK(sessions_.size() <= limits_.session_count_max, "sessions are bounded");
  OUTRIDER_CHECK(deadlines_.size() <= sessions_.size(), "a session has one deadline");
  size_t found = 0;
  uint64_t bytes = 0;
  for (const auto& [number, session] : sessions_) {
    const VerifiedSequence& sequence = *session->sequence;
    bytes += sequence.bytes();
    OUTRIDER_CHECK(session->at_target.read_count() <= sequence.history().size(),
                   "the target has read what is committed");
    OUTRIDER_CHECK(!sequence.in_pass() || session->at_target.in_run(), "a pass is in a run");
    OUTRIDER_CHECK(!session->hidden || (session->at_target.in_run() && !session->stream),
                   "what is hidden stays for the run alone");
    OUTRIDER_CHECK(session->hidden || by_id_.at(session->identity.id()) == session.get(),
                   "a session is found by its name");
    OUTRIDER_CHECK(session->stream || session->hidden || deadlines_.Has(number),
                   "a session without a stream will not stay for ever");
    if (!session->hidden) ++found;
  }
  OUTRIDER_CHECK(bytes == bytes_, "all that sessions keep is charged");
  OUTRIDER_CHECK(found == by_id_.size() && found == by_nonce_.size(),
                 "names are those of sessions that are here");
}

}  // namespace outrider
