#include "common/verification/machine/verifier_machine.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/own_limit.h"
#include "common/verification/wire_padding.h"
#include "common/verification/wire_time.h"

namespace outrider {
namespace {

using Kind = v1::ClientMessage::KindCase;

constexpr uint32_t kRevision = 1;  // of verifier.proto

// What a message that cannot be followed does to its session.
v1::Fault::Kind FaultOf(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return v1::Fault::OVERLOADED;
  return absl::IsFailedPrecondition(status) ? v1::Fault::DRIFTED : v1::Fault::MALFORMED;
}

// What a stream's first message asks for.
uint32_t FrameBytesOf(const v1::ClientMessage& message) {
  return message.has_open() ? message.open().frame_bytes() : message.resume().frame_bytes();
}

absl::Status CheckFrames(const v1::ClientMessage& message) {
  OUTRIDER_RETURN_IF_ERROR(CheckPadding(message.padding().size()));
  return CheckFrameBytes(FrameBytesOf(message));
}

}  // namespace

VerifierMachine::VerifierMachine(VerifierConfig config, Parts parts)
    : state_(std::move(config), std::move(parts.random_bits)),
      attachments_(state_, parts.tokenizer),
      runs_(state_, attachments_) {}

std::optional<VerifierMachine::StreamNumber> VerifierMachine::StreamOf(uint64_t session) const {
  const VerifierSession* const found = state_.sessions.Find(session);
  if (!found || !found->stream) return std::nullopt;
  return found->stream->number;
}

VerifierStats VerifierMachine::stats() const {
  VerifierStats stats = {.sessions = state_.sessions.size(),
                         .sessions_waiting = state_.memory.waiting_count(),
                         .streams = state_.streams.size(),
                         .callers = state_.callers.size(),
                         .memory_used = state_.memory.used(),
                         .draining = attachments_.draining(),
                         .sessions_opened = attachments_.opened_count(),
                         .sessions_refused = attachments_.refused_count(),
                         .attachments = attachments_.attachment_count(),
                         .resumes = attachments_.resume_count(),
                         .shared_tokens = state_.memory.shared_token_count(),
                         .evictions = state_.memory.eviction_count(),
                         .hints_sent = runs_.hints_sent(),
                         .hints_overtaken = state_.streams.hints_overtaken(),
                         .faults = state_.streams.fault_counts(),
                         .writing = runs_.stats(),
                         .running = state_.run.stats(),
                         .exits = {}};
  const ExitWorth& worth = runs_.exit_worth();
  for (size_t i = 0; i < worth.exit_count(); ++i) {
    stats.exits.push_back({state_.config.exit_depths[i], worth.on(i), worth.counts(i)});
  }
  return stats;
}

void VerifierMachine::Describe(v1::DescribeResponse& response) const {
  response.set_revision(kRevision);
  response.set_model_name(state_.config.model_name);
  response.set_numerics_id(state_.config.numerics_id);
  response.set_tokenizer_fingerprint(state_.config.tokenizer_fingerprint);
  response.set_vocabulary_size(state_.config.vocabulary_size);
  response.set_context_length(attachments_.length_max());
  response.set_pass_nodes_max(state_.config.pass_nodes_max);
  response.set_sketch_nodes_max(state_.config.sketch_nodes_max);
  response.set_drafts(state_.config.drafts);
  response.mutable_exit_depths()->Assign(state_.config.exit_depths.begin(),
                                         state_.config.exit_depths.end());
}

// --- events ---

void VerifierMachine::Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions) {
  state_.moment = {now, &actions};
  std::visit([this](const auto& e) { On(e); }, event);
  state_.memory.DropKeptBefore(now - state_.config.prefix_max);
  state_.memory.ServeQueue(state_.moment.now);
  if (const VerifierSession* const waiting = state_.memory.first_waiting()) {
    state_.sessions.WakeNoLater(*waiting, state_.memory.next_try());
  }
  runs_.Begin();
  attachments_.EndDrain();
  SetTimerIfSooner();
  state_.moment.actions = nullptr;
}

void VerifierMachine::On(const StreamOpened& event) {
  if (attachments_.drained()) {
    return state_.moment.Ask(EndStream{event.stream, absl::UnavailableError("stopping")});
  }
  if (state_.streams.full()) {
    return RefuseStream(event, VerifierEvents::StreamLimit::kAll, "too many streams");
  }
  const Origin* const known = state_.origins.Find(event.origin);
  if (known != nullptr && known->stream_count >= state_.config.stream_count_of_origin_max) {
    return RefuseStream(event, VerifierEvents::StreamLimit::kOfOrigin,
                        "too many streams of this address");
  }
  Caller& caller = state_.callers.Of(event.key, event.origin);
  caller.terms = event.terms;
  const uint32_t of_key_max = caller.terms.streams_max > 0 ? caller.terms.streams_max
                                                           : state_.config.stream_count_of_key_max;
  if (!event.key.empty() && caller.stream_count >= of_key_max) {
    return RefuseStream(event, VerifierEvents::StreamLimit::kOfKey, "too many streams of this key");
  }
  Origin* const origin = event.origin.empty() ? nullptr : &state_.origins.Of(event.origin);
  if (origin != nullptr) state_.origins.StreamOpened(*origin);
  if (!event.key.empty() && caller.terms.opens_per_minute == 0) {
    caller.terms.opens_per_minute = state_.config.opens_per_minute;
  }
  attachments_.ReadNext(state_.streams.Open(event.stream, caller, origin));
}

void VerifierMachine::RefuseStream(const StreamOpened& event, VerifierEvents::StreamLimit limit,
                                   std::string_view why) {
  state_.moment.Ask(VerifierEvents::StreamRefused{
      .key = std::string(event.key), .origin = std::string(event.origin), .limit = limit});
  const bool is_own = limit != VerifierEvents::StreamLimit::kAll;
  state_.moment.Ask(EndStream{event.stream, OfOwnLimit(ResourceExhausted(why), is_own)});
}

void VerifierMachine::On(const KeyRevoked& event) {
  if (const Caller* const caller = state_.callers.Find(event.key)) attachments_.Revoke(*caller);
}

void VerifierMachine::On(const Received& event) {
  VerifierStream* const stream = state_.streams.FindListening(event.stream);
  if (!stream) return;
  OUTRIDER_CHECK(!stream->held, "a message comes when it has been asked for");
  state_.streams.Took(*stream, event.message);
  if (MustWait(*stream, event.message)) {
    return state_.streams.Hold(*stream, event.message, event.prepared);
  }
  Receive(*stream, event.message, event.prepared);
}

void VerifierMachine::On(const Written& event) {
  VerifierStream* const stream = state_.streams.Find(event.stream);
  if (!stream) return;
  state_.streams.Written(*stream);
  if (stream->session) state_.sessions.Touch(*stream->session);
}

void VerifierMachine::On(const StreamClosed& event) {
  VerifierStream* const stream = state_.streams.Find(event.stream);
  if (!stream) return;
  attachments_.Detach(*stream);
  Caller& caller = stream->caller;
  Origin* const origin = stream->origin;
  state_.streams.Close(*stream);
  state_.callers.ForgetIfUnused(caller);
  if (origin != nullptr) state_.origins.StreamClosed(*origin);
}

// Handle() sees to those whose pass is due.
void VerifierMachine::On(const TimerFired&) {
  timer_at_.reset();
  while (VerifierStream* const stream = state_.streams.NextReader()) attachments_.ReadNext(*stream);
  while (VerifierStream* const stream = state_.streams.NextOverdue()) {
    attachments_.Detach(*stream);
    state_.streams.EndOverdue(*stream);
  }
  while (VerifierSession* const session = state_.sessions.NextExpired())
    attachments_.Remove(*session, VerifierEvents::SessionEnd::kExpired);
}

void VerifierMachine::On(const Drain& event) {
  attachments_.Drain(event.deadline);
}

void VerifierMachine::On(const TargetDone&) {
  runs_.End();
  ReceiveHeld();
}

void VerifierMachine::On(const HintFound& event) {
  runs_.Hear(event);
}

void VerifierMachine::On(const Drafted& event) {
  VerifierSession* const session = state_.sessions.Find(event.session);
  if (!session) return;
  state_.draft_worth.Ended(session->draft.job_token_count(), event.time);
  state_.sessions.Touch(*session);
  if (session->draft.End(*session->sequence)) {
    session->kept_here.Came();
    return session->sequence->GrowHere(event.chain);
  }
  session->kept_here.Missed();
  if (session->stream) attachments_.RootKnown(*session);
}

// One that fires early is no harm: whoever it is for is asked whether its time has come.
void VerifierMachine::SetTimerIfSooner() {
  std::optional<MonotonicTime> first = state_.streams.first_deadline();
  const auto consider = [&](std::optional<MonotonicTime> at) {
    if (at && (!first || *at < *first)) first = at;
  };
  consider(state_.streams.first_read());
  consider(state_.sessions.first_deadline());
  consider(attachments_.next_deadline());
  consider(runs_.begin_at());
  if (!first || (timer_at_ && *timer_at_ <= *first)) return;
  timer_at_ = first;
  state_.moment.Ask(SetTimer{*first});
}

// --- messages ---

// Whether it would disturb the run that its session is in.
bool VerifierMachine::MustWait(const VerifierStream& stream,
                               const v1::ClientMessage& message) const {
  const VerifierSession* session = stream.session;
  switch (message.kind_case()) {
    case Kind::kOpen:
      session = session ? nullptr : state_.sessions.FindOpened(stream.caller, message.open());
      break;
    case Kind::kResume:
      session = session ? nullptr : state_.sessions.FindResumed(stream.caller, message.resume());
      break;
    case Kind::kAppend:
    case Kind::kTruncate:
    case Kind::kClose:
      break;
    case Kind::kTune:
      if (!message.tune().has_draft()) return false;
      break;
    default:
      return false;
  }
  return session && session->at_target.in_run();
}

void VerifierMachine::ReceiveHeld() {
  for (const StreamNumber number : state_.streams.Holders()) {
    VerifierStream& stream = *state_.streams.Find(number);
    // What was received before it may have ended this stream.
    if (!stream.held) continue;
    const std::unique_ptr<VerifierStream::Held> held = std::move(stream.held);
    Receive(stream, held->message, held->prepared ? &*held->prepared : nullptr);
  }
}

void VerifierMachine::Receive(VerifierStream& stream, const v1::ClientMessage& message,
                              Prepared* prepared) {
  const bool is_known = message.kind_case() != Kind::KIND_NOT_SET;
  if (is_known) state_.streams.FreePlace(stream);
  if (is_known && stream.session) {
    ReceiveNext(*stream.session, message, prepared);
  } else if (is_known) {
    ReceiveFirst(stream, message, prepared);
  }
  attachments_.ReadNext(stream);
}

void VerifierMachine::ReceiveFirst(VerifierStream& stream, const v1::ClientMessage& message,
                                   Prepared* prepared) {
  if (const absl::Status status = CheckFrames(message); !status.ok()) {
    return attachments_.Refuse(stream, v1::Fault::MALFORMED, status);
  }
  stream.outbox.SetFrameBytes(FrameBytesOf(message));
  switch (message.kind_case()) {
    case Kind::kOpen:
      return attachments_.Open(stream, message.open(), prepared);
    case Kind::kResume:
      return attachments_.Resume(stream, message.resume());
    default:
      return attachments_.Refuse(
          stream, v1::Fault::MALFORMED,
          InvalidArgument("the first message of a stream is Open or Resume"));
  }
}

void VerifierMachine::ReceiveNext(VerifierSession& session, const v1::ClientMessage& message,
                                  Prepared* prepared) {
  session.identity.DeviceHasToken();
  state_.sessions.Touch(session);
  absl::Status status = CheckPadding(message.padding().size());
  if (!status.ok()) return attachments_.RemoveWithFault(session, FaultOf(status), status);
  switch (message.kind_case()) {
    case Kind::kGrow:
      status = Follow(session, message.grow());
      break;
    case Kind::kAppend:
      status = Follow(session, message.append(), prepared);
      break;
    case Kind::kTruncate:
      status = Follow(session, message.truncate());
      break;
    case Kind::kTune:
      status = Follow(session, message.tune());
      break;
    case Kind::kClose:
      return Close(session);
    default:
      status = InvalidArgument("this stream has its session; Open and Resume begin another stream");
      break;
  }
  if (!status.ok()) attachments_.RemoveWithFault(session, FaultOf(status), status);
}

absl::Status VerifierMachine::Follow(VerifierSession& session, const v1::Grow& grow) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Grow(grow));
  session.pace.Grown(grow, *session.sequence, state_.moment.now);
  state_.memory.Queue(session);  // where it had to give its memory to others
  return absl::OkStatus();
}

absl::Status VerifierMachine::Follow(VerifierSession& session, const v1::Append& append,
                                     Prepared* prepared) {
  OUTRIDER_RETURN_IF_ERROR(
      session.sequence->Append(append, prepared ? std::move(prepared->stops) : std::nullopt));
  OUTRIDER_RETURN_IF_ERROR(attachments_.Charge(session));
  session.tally.ReplyBegun(state_.moment.now);
  attachments_.RootKnown(session);
  state_.memory.Queue(session);
  return absl::OkStatus();
}

absl::Status VerifierMachine::Follow(VerifierSession& session, const v1::Truncate& truncate) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Truncate(truncate));
  session.idle_since = state_.moment.now;
  state_.memory.Truncated(session, truncate.length(), state_.moment.now);
  session.draft.Truncate(truncate.length());
  return absl::OkStatus();
}

absl::Status VerifierMachine::Follow(VerifierSession& session, const v1::Tune& tune) {
  session.Tune(tune);
  if (!tune.has_draft() || tune.draft() == session.sequence->drafted_here()) {
    return absl::OkStatus();
  }
  OUTRIDER_RETURN_IF_ERROR(attachments_.CheckDraft(tune.draft()));
  session.sequence->DraftHere(tune.draft());
  attachments_.RootKnown(session);
  return absl::OkStatus();
}

void VerifierMachine::Close(VerifierSession& session) {
  VerifierStream& stream = *session.stream;
  attachments_.Remove(session, VerifierEvents::SessionEnd::kClosed);
  state_.streams.End(stream, absl::OkStatus());
}

void VerifierMachine::CheckInvariants() const {
  state_.streams.CheckInvariants(state_.run.running());
  state_.sessions.CheckInvariants();
  state_.memory.CheckInvariants();
  state_.origins.CheckInvariants();
  attachments_.CheckInvariants();
  runs_.CheckInvariants();
  uint32_t jobs = 0;
  state_.sessions.ForEach(
      [&](const VerifierSession& session) { jobs += session.draft.is_at_work() ? 1 : 0; });
  OUTRIDER_CHECK(state_.draft_worth.at_work() == jobs, "jobs at work are sessions'");
}

}  // namespace outrider
