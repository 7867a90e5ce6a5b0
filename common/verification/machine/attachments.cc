#include "common/verification/machine/attachments.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/own_limit.h"
#include "common/verification/wire_time.h"

namespace outrider {

Attachments::Attachments(VerifierState& state, const Tokenizer& tokenizer)
    : state_(state),
      tokenizer_(tokenizer),
      length_max_(static_cast<uint32_t>(std::min<uint64_t>(
          state.memory.LengthMax(state.config.pass_nodes_max), state.config.context_length))) {}

// --- Open ---

VerifierEvents::Prepared Attachments::Prepare(const v1::ClientMessage& message,
                                              VerifierEvents::Work work) const {
  VerifierEvents::Prepared prepared;
  if (message.has_open() && work != VerifierEvents::Work::kEdit) {
    prepared.open_hash = SessionIdentity::HashOf(message.open());
    if (work == VerifierEvents::Work::kOpen) prepared.sequence = Prepare(message.open());
  } else if (message.append().has_stops() && work == VerifierEvents::Work::kEdit) {
    prepared.stops = VerifiedSequence::ReadStops(message.append().stops(), tokenizer_);
  }
  return prepared;
}

Attachments::PreparedSequence Attachments::Prepare(const v1::Open& open) const {
  const VerifiedSequence::Limits limits = {
      .vocabulary_size = static_cast<int32_t>(state_.config.vocabulary_size),
      .context_length = length_max_,
      .pass_nodes_max = state_.config.pass_nodes_max,
      .sketch_nodes_max = state_.config.sketch_nodes_max};
  return VerifiedSequence::Create(open, tokenizer_, limits);
}

void Attachments::ReadNext(VerifierStream& stream) {
  if (!stream.listens()) return;
  const bool is_new = stream.session == nullptr;
  if (is_new && !stream.has_place && HasPlaceFor(stream)) state_.streams.KeepPlace(stream);
  const auto work_of_first =
      stream.has_place ? VerifierEvents::Work::kOpen : VerifierEvents::Work::kLittle;
  state_.streams.ReadNext(stream, is_new ? work_of_first : VerifierEvents::Work::kEdit);
}

bool Attachments::HasPlaceFor(VerifierStream& stream) const {
  const uint32_t kept = stream.caller.places_kept;
  if (drain_deadline_ ||
      !state_.sessions.HasRoomFor(stream.caller, kept, state_.streams.places_kept())) {
    return false;
  }
  const OpenRate* const rate = RateOf(stream);
  return rate == nullptr || rate->Left(OpensPerMinute(stream), state_.moment.now) >= kept + 1;
}

void Attachments::Open(VerifierStream& stream, const v1::Open& open,
                       VerifierEvents::Prepared* prepared) {
  const size_t hash = prepared ? prepared->open_hash : SessionIdentity::HashOf(open);
  if (VerifierSession* const session = state_.sessions.FindOpened(stream.caller, open)) {
    OpenAgain(stream, open, hash, *session);
  } else {
    OpenNew(stream, open, hash, prepared);
  }
}

void Attachments::OpenNew(VerifierStream& stream, const v1::Open& open, size_t hash,
                          VerifierEvents::Prepared* prepared) {
  if (drain_deadline_) {
    return Refuse(stream, v1::Fault::DRAINING, absl::UnavailableError("the server is stopping"));
  }
  if (const absl::Status status = CheckCompatible(open); !status.ok()) {
    return Refuse(stream, v1::Fault::MISMATCH, status);
  }
  if (const absl::Status status = CheckDraft(open.draft()); !status.ok()) {
    return Refuse(stream, v1::Fault::MALFORMED, status);
  }
  // Where there was no room when it was asked for, nothing has been made ready.
  const bool is_ready = !prepared || prepared->sequence;
  OpenRate* const rate = RateOf(stream);
  if (!is_ready || !state_.sessions.HasRoomFor(stream.caller) ||
      (rate != nullptr && !rate->Take(OpensPerMinute(stream), state_.moment.now))) {
    return RefuseForWantOfRoom(stream, WhyNoPlace(stream));
  }
  PreparedSequence sequence = prepared ? *std::move(prepared->sequence) : Prepare(open);
  if (!sequence.ok()) return Refuse(stream, v1::Fault::MALFORMED, sequence.status());
  if (const absl::Status status = CheckBytes(stream.caller, (*sequence)->bytes()); !status.ok()) {
    return RefuseForWantOfRoom(stream, status);
  }
  const uint64_t number = state_.sessions.NextNumber();
  const auto lent = state_.memory.Borrow(number, stream.caller, **sequence, state_.moment.now);
  if (!lent && !state_.memory.MayWait(stream.caller, **sequence)) {
    return RefuseForWantOfRoom(stream, ResourceExhausted("all of the target's memory is in use"));
  }
  VerifierSession& session =
      state_.sessions.Add(number, stream.caller, open, hash, *std::move(sequence));
  if (lent) state_.memory.Begin(session, *lent);
  session.sequence->DraftHere(open.draft());
  state_.run.OpenAccount(number, stream.caller.number, stream.caller.terms.share);
  ++opened_count_;
  v1::Opened opened;
  OUTRIDER_CHECK_OK(session.sequence->Attach(opened));
  AnswerOpen(stream, session, opened);
}

// Those without a key are known by where they are. Null: nobody knows.
OpenRate* Attachments::RateOf(VerifierStream& stream) const {
  if (!stream.caller.key.empty()) return &stream.caller.opens;
  return stream.origin ? &stream.origin->opens : nullptr;
}

uint32_t Attachments::OpensPerMinute(const VerifierStream& stream) const {
  const bool has_key = !stream.caller.key.empty();
  return has_key ? stream.caller.terms.opens_per_minute : state_.config.opens_per_minute;
}

absl::Status Attachments::CheckCompatible(const v1::Open& open) const {
  const auto differs = [](const std::string& device, const std::string& server) {
    return !device.empty() && device != server;
  };
  if (differs(open.tokenizer_fingerprint(), state_.config.tokenizer_fingerprint)) {
    return FailedPrecondition("the device's tokenizer is ", open.tokenizer_fingerprint(),
                              ", and that of ", state_.config.model_name, " here is ",
                              state_.config.tokenizer_fingerprint,
                              "; use a draft of the same family");
  }
  if (differs(open.numerics_id(), state_.config.numerics_id)) {
    return FailedPrecondition("the device asks for numerics id ", open.numerics_id(), ", and ",
                              state_.config.model_name, " here has ", state_.config.numerics_id,
                              ": its text may differ");
  }
  return absl::OkStatus();
}

absl::Status Attachments::CheckDraft(bool wanted) const {
  if (!wanted || state_.config.drafts) return absl::OkStatus();
  return InvalidArgument("this server has no draft; grow the sketch, or start it with --draft");
}

// Which limit it is that there is no room by: it may be somebody's to raise.
absl::Status Attachments::WhyNoPlace(VerifierStream& stream) const {
  const Caller& caller = stream.caller;
  const char* const who = caller.key.empty() ? "this address" : "this key";
  const uint32_t kept = caller.places_kept;
  if (const uint32_t most = state_.sessions.MostOf(caller); caller.session_count + kept >= most) {
    return OfOwnLimit(ResourceExhausted(who, " may have no more than ", most, " at a time"));
  }
  if (!state_.sessions.HasRoomFor(caller, kept, state_.streams.places_kept())) {
    return ResourceExhausted("this server may have no more than ", state_.config.session_count_max,
                             " at a time");
  }
  const OpenRate* const rate = RateOf(stream);
  const uint32_t opens = OpensPerMinute(stream);
  if (rate != nullptr && rate->Left(opens, state_.moment.now) < kept + 1) {
    return OfOwnLimit(ResourceExhausted(who, " may open no more than ", opens, " a minute"));
  }
  return ResourceExhausted("there was none a moment ago");
}

absl::Status Attachments::Charge(VerifierSession& session) {
  const uint64_t before = session.bytes;
  state_.sessions.Charge(session);
  return session.bytes > before ? CheckBytes(session.caller, 0) : absl::OkStatus();
}

// Whether there is room for so much more.
absl::Status Attachments::CheckBytes(const Caller& caller, uint64_t more) const {
  const uint64_t most = BytesOf(state_.sessions.MostOf(caller));
  const uint64_t most_of_all = BytesOf(state_.config.session_count_max);
  const bool is_callers = caller.session_bytes + more > most;
  if (!is_callers && state_.sessions.bytes() + more <= most_of_all) return absl::OkStatus();
  const char* const callers = caller.key.empty() ? "this address" : "this key";
  const absl::Status why =
      ResourceExhausted("the sessions of ", is_callers ? callers : "this server",
                        " may keep no more than ", (is_callers ? most : most_of_all) >> 20,
                        " MiB of tokens, counts for penalties and stop strings; ask for a "
                        "smaller length_max or for fewer of them, or end a session");
  return OfOwnLimit(why, is_callers);
}

uint64_t Attachments::BytesOf(uint32_t session_count) const {
  const uint64_t context_bytes = (uint64_t{length_max_} + 1) * VerifiedSequence::kTokenBytes;
  return state_.config.bytes_of_sessions +
         session_count * (context_bytes + state_.config.bytes_of_session);
}

void Attachments::RefuseForWantOfRoom(VerifierStream& stream, const absl::Status& why) {
  ++refused_count_;
  const absl::Status refusal =
      ResourceExhausted("no room for another session: ", Message(why), "; come again in ",
                        WireMilliseconds(state_.config.retry_after), " ms");
  Refuse(stream, v1::Fault::OVERLOADED, OfOwnLimit(refusal, IsOfOwnLimit(why)));
}

// Its answer was lost. Everything that the first one has done stands.
void Attachments::OpenAgain(VerifierStream& stream, const v1::Open& open, size_t hash,
                            VerifierSession& session) {
  if (!session.identity.IsOpenedBy(open, hash)) {
    return Refuse(stream, v1::Fault::MALFORMED,
                  InvalidArgument("this nonce has opened another session; every one has its own"));
  }
  if (session.identity.IsLate(open.attempt())) return RefuseLate(stream);
  if (session.identity.has_token()) {
    return Refuse(stream, v1::Fault::MALFORMED,
                  InvalidArgument("the device of this session has its token; Resume with that, or "
                                  "open another session with another nonce"));
  }
  v1::Opened opened;
  if (const absl::Status status = session.sequence->Attach(opened); !status.ok()) {
    return Refuse(stream, v1::Fault::MALFORMED, status);
  }
  Fence(session);
  session.identity.Reopen(open);
  AnswerOpen(stream, session, opened);
}

void Attachments::AnswerOpen(VerifierStream& stream, VerifierSession& session, v1::Opened& opened) {
  opened.set_session(session.identity.id());
  opened.set_token(session.identity.token());
  opened.set_time_to_live_ms(WireMilliseconds(state_.config.time_to_live));
  opened.set_numerics_id(state_.config.numerics_id);
  opened.set_drafts(state_.config.drafts);
  stream.outbox.AddOpened().Swap(&opened);
  Attach(stream, session);
}

// --- Resume ---

void Attachments::Resume(VerifierStream& stream, const v1::Resume& resume) {
  VerifierSession* const session = state_.sessions.FindResumed(stream.caller, resume);
  if (!session) {
    return Refuse(stream, v1::Fault::UNKNOWN_SESSION,
                  NotFound("there is no such session, or not with this token; open a new one with "
                           "the committed tokens"));
  }
  if (session->identity.IsLate(resume.attempt())) return RefuseLate(stream);
  Fence(*session);
  v1::Resumed resumed;
  if (const absl::Status status = session->sequence->Resume(resume, resumed); !status.ok()) {
    Remove(*session, SessionEnd::kFault);
    return Refuse(stream, v1::Fault::DRIFTED, status);
  }
  session->identity.Resume(resume);
  ++resume_count_;
  resumed.set_token(session->identity.token());
  stream.outbox.AddResumed().Swap(&resumed);
  Attach(stream, *session);
}

// --- both ---

// The device has given this stream up and asked for another, which has come before it.
void Attachments::RefuseLate(VerifierStream& stream) {
  Refuse(stream, v1::Fault::SUPERSEDED,
         absl::AbortedError("a newer stream has attached to this session"));
}

void Attachments::Fence(VerifierSession& session) {
  if (!session.stream) return;
  Refuse(*session.stream, v1::Fault::SUPERSEDED,
         absl::AbortedError("another stream has attached to this session"));
}

// The answer is in the outbox.
void Attachments::Attach(VerifierStream& stream, VerifierSession& session) {
  state_.streams.Attached(stream);
  stream.session = &session;
  stream.session_number = session.number;
  session.stream = &stream;
  session.idle_since = state_.moment.now;
  state_.sessions.Touch(session);
  RootKnown(session);
  state_.memory.Queue(session);
  ++attachment_count_;
  session.tally.Attached();
  if (drain_deadline_) TellDraining(stream);
  state_.streams.Pump(stream);
}

// The device, or the draft here, has a new root to grow from, or this root has a device again.
void Attachments::RootKnown(VerifierSession& session) {
  session.pace.RootKnown(*session.sequence, state_.run.pass_time_known(), state_.moment.now);
  if (!session.draft.IsWanted(*session.sequence)) return;
  if (!IsWorthDrafting(session)) {
    session.kept_here.LeftOut();
    state_.draft_worth.LeftOut();
    return session.sequence->GrowHere({});
  }
  session.kept_here.Asked(state_.run.stats().runs);
  const std::optional<Duration> due = state_.draft_worth.DueOfNext();
  if (due) session.draft.SetDue(state_.moment.now + *due);
  state_.draft_worth.Began();
  const double least = state_.sessions.size() == 1 ? 0 : state_.run.least_chance();
  state_.moment.Ask(
      VerifierEvents::Draft{session.draft.Begin(session.number, *session.sequence, least)});
}

bool Attachments::IsWorthDrafting(const VerifierSession& session) const {
  const std::optional<DryWait::PassTime> pass = state_.run.pass_time_known();
  if (!pass) return true;
  // Who is alone takes nothing from others.
  const uint32_t at_work = std::max(state_.run.at_work(), 1U);
  const double others = static_cast<double>(at_work - 1) / at_work;
  return state_.draft_worth.IsWorthIt(session.kept_here,
                                      {.run_seconds = pass->seconds,
                                       .row = others * state_.run.row_price(),
                                       .other_second = others * state_.run.second_price(),
                                       .takes_cores = state_.config.draft_shares_cores});
}

// --- endings ---

void Attachments::Detach(VerifierStream& stream) {
  if (!stream.session) return;
  VerifierSession& session = *std::exchange(stream.session, nullptr);
  session.stream = nullptr;
  state_.sessions.Expect(session, false);
  state_.sessions.Detached(session);
  state_.memory.LeaveQueue(session);
}

// The stream's session, if it has one, stays.
void Attachments::Refuse(VerifierStream& stream, v1::Fault::Kind kind, const absl::Status& why) {
  Detach(stream);
  state_.streams.Refuse(stream, kind, why);
}

void Attachments::RemoveWithFault(VerifierSession& session, v1::Fault::Kind kind,
                                  const absl::Status& why) {
  if (VerifierStream* const stream = session.stream) Refuse(*stream, kind, why);
  Remove(session, kind == v1::Fault::DRAINING ? SessionEnd::kDrained : SessionEnd::kFault);
}

// Nobody finds it any more. While it is in the run it stays where the target can see it.
void Attachments::Remove(VerifierSession& session, SessionEnd why) {
  if (session.stream) Detach(*session.stream);
  state_.sessions.Hide(session);
  state_.moment.Ask(VerifierEvents::SessionOver{
      .session = session.number, .key = session.caller.key, .why = why, .tally = session.tally});
  if (!session.at_target.in_run()) Erase(session);
}

void Attachments::Erase(VerifierSession& session) {
  state_.memory.Release(session, state_.moment.now);
  state_.run.CloseAccount(session.number);
  if (session.draft.is_known()) state_.moment.Ask(VerifierEvents::ForgetDraft{session.number});
  if (session.draft.is_at_work()) state_.draft_worth.Dropped();
  Caller& caller = session.caller;
  state_.sessions.Erase(session);
  state_.callers.ForgetIfUnused(caller);
}

// Those that it has no stream to go by the same way.
void Attachments::Revoke(const Caller& caller) {
  const absl::Status why =
      absl::UnauthenticatedError("the device's key is not valid any more; it needs another one");
  state_.streams.ForEach([&](VerifierStream& stream) {
    if (&stream.caller != &caller || !stream.listens()) return;
    Detach(stream);
    state_.streams.End(stream, why);
  });
  std::vector<VerifierSession*> sessions;
  state_.sessions.ForEach([&](VerifierSession& session) {
    if (&session.caller == &caller && !session.hidden) sessions.push_back(&session);
  });
  for (VerifierSession* const session : sessions) Remove(*session, SessionEnd::kRevoked);
}

// --- stopping ---

void Attachments::Drain(MonotonicTime deadline) {
  drain_deadline_ = deadline;
  state_.streams.ForEach([this](VerifierStream& stream) {
    if (stream.session) TellDraining(stream);
  });
}

void Attachments::ReplyEnded(VerifierStream& stream) {
  if (drain_deadline_) TellDraining(stream);
}

// A session that is writing may go on; one that is not would keep the server for nothing.
void Attachments::TellDraining(VerifierStream& stream) {
  VerifierSession& session = *stream.session;
  if (session.sequence->finish() != v1::FINISH_NONE) {
    return RemoveWithFault(session, v1::Fault::DRAINING,
                           absl::UnavailableError("the server is stopping"));
  }
  stream.outbox.SetDraining().set_deadline_ms(
      WireMilliseconds(*drain_deadline_ - state_.moment.now));
  state_.streams.Pump(stream);
}

void Attachments::EndDrain() {
  if (!drain_deadline_ || drained_) return;
  if (state_.moment.now >= *drain_deadline_) EndAll();
  if (state_.streams.size() > 0 || state_.run.running()) return;
  while (state_.sessions.size() > 0) Remove(state_.sessions.any(), SessionEnd::kDrained);
  drained_ = true;
  state_.moment.Ask(VerifierEvents::Drained{});
}

void Attachments::EndAll() {
  const absl::Status why = absl::UnavailableError("the server is stopping");
  state_.streams.ForEach([&](VerifierStream& stream) {
    if (!stream.listens()) return;
    VerifierSession* const session = stream.session;
    Refuse(stream, v1::Fault::DRAINING, why);
    if (session) Remove(*session, SessionEnd::kDrained);
  });
}

std::optional<MonotonicTime> Attachments::next_deadline() const {
  if (!drain_deadline_ || state_.moment.now >= *drain_deadline_) return std::nullopt;
  return drain_deadline_;
}

void Attachments::CheckInvariants() const {
  state_.sessions.ForEach([](const VerifierSession& session) {
    OUTRIDER_CHECK(!session.stream || session.stream->session == &session,
                   "a session and its stream know each other");
  });
  state_.streams.ForEach([](const VerifierStream& stream) {
    OUTRIDER_CHECK(!stream.session || stream.session->stream == &stream,
                   "a stream and its session know each other");
  });
  size_t stream_count = 0;
  size_t session_count = 0;
  state_.callers.ForEach([&](const Caller& caller) {
    stream_count += caller.stream_count;
    session_count += caller.session_count;
  });
  OUTRIDER_CHECK(stream_count == state_.streams.size(), "every stream is counted at its caller");
  OUTRIDER_CHECK(session_count == state_.sessions.size(), "every session is counted at its caller");
}

}  // namespace outrider
