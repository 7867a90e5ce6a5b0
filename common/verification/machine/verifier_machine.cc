#include "common/verification/machine/verifier_machine.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/wire_time.h"

namespace outrider {
namespace {

using Kind = v1::ClientMessage::KindCase;

constexpr uint32_t kRevision = 1;  // of verifier.proto

// What a message that cannot be followed does to its session.
v1::Fault::Kind FaultOf(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? v1::Fault::DRIFTED : v1::Fault::MALFORMED;
}

}  // namespace

VerifierMachine::VerifierMachine(VerifierConfig config, Parts parts)
    : config_(std::move(config)),
      parts_(std::move(parts)),
      streams_({.stream_count_max = config_.stream_count_max,
                .unread_verdicts_max = config_.unread_verdicts_max,
                .first_message_max = config_.first_message_max,
                .silence_max = config_.silence_max,
                .write_max = config_.write_max,
                .retry_after = config_.retry_after},
               moment_),
      sessions_({.session_count_max = config_.session_count_max,
                 .session_count_of_key_max = config_.session_count_of_key_max,
                 .time_to_live = config_.time_to_live,
                 .shares_processor = config_.shares_processor},
                parts_.random_bits, moment_),
      run_(config_.scheduler),
      memory_({.groups = config_.page_groups,
               .sequence_count = config_.sequence_count_max,
               .row_count_max = config_.row_count_max},
              config_.forks_share_pages, sessions_, run_),
      length_max_(static_cast<uint32_t>(
          std::min<uint64_t>(memory_.LengthMax(config_.pass_nodes_max), config_.context_length))) {
  OUTRIDER_CHECK(config_.vocabulary_size > 0, "a target is described");
}

std::optional<VerifierMachine::StreamNumber> VerifierMachine::StreamOf(uint64_t session) const {
  const VerifierSession* const found = sessions_.Find(session);
  if (!found || !found->stream) return std::nullopt;
  return found->stream->number;
}

VerifierMachine::Stats VerifierMachine::stats() const {
  Stats stats = counted_;
  stats.runs = run_.run_count();
  stats.prompt_tokens = run_.prompt_token_count();
  stats.shared_tokens = memory_.shared_token_count();
  stats.evictions = memory_.eviction_count();
  stats.hints_overtaken = streams_.hints_overtaken();
  stats.faults = streams_.fault_count();
  return stats;
}

void VerifierMachine::Describe(v1::DescribeResponse& response) const {
  response.set_revision(kRevision);
  response.set_model_name(config_.model_name);
  response.set_numerics_id(config_.numerics_id);
  response.set_tokenizer_fingerprint(config_.tokenizer_fingerprint);
  response.set_vocabulary_size(config_.vocabulary_size);
  response.set_context_length(length_max_);
  response.set_pass_nodes_max(config_.pass_nodes_max);
  response.set_sketch_nodes_max(config_.sketch_nodes_max);
  response.mutable_exit_depths()->Assign(config_.exit_depths.begin(), config_.exit_depths.end());
}

// --- events ---

void VerifierMachine::Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions) {
  moment_ = {now, &actions};
  std::visit([this](const auto& e) { On(e); }, event);
  memory_.ServeQueue();
  Schedule();
  EndDrain();
  SetTimerIfSooner();
  moment_.actions = nullptr;
}

void VerifierMachine::On(const StreamOpened& event) {
  if (drained_) {
    return moment_.Ask(EndStream{event.stream, absl::UnavailableError("stopping")});
  }
  if (streams_.full()) {
    return moment_.Ask(EndStream{event.stream, ResourceExhausted("too many streams")});
  }
  streams_.Open(event.stream, callers_.Of(event.key));
}

void VerifierMachine::On(const Received& event) {
  VerifierStream* const stream = streams_.FindListening(event.stream);
  if (!stream) return;
  OUTRIDER_CHECK(!stream->held, "a message comes when it has been asked for");
  stream->heard = moment_.now;
  if (MustWait(*stream, event.message)) return streams_.Hold(*stream, event.message);
  Receive(*stream, event.message);
}

void VerifierMachine::On(const Written& event) {
  if (VerifierStream* const stream = streams_.Find(event.stream)) streams_.Written(*stream);
}

void VerifierMachine::On(const StreamClosed& event) {
  VerifierStream* const stream = streams_.Find(event.stream);
  if (!stream) return;
  Detach(*stream);
  Caller& caller = stream->caller;
  streams_.Close(*stream);
  callers_.ForgetIfUnused(caller);
}

// Schedule() sees to those whose pass is due.
void VerifierMachine::On(const TimerFired&) {
  timer_at_.reset();
  while (VerifierStream* const stream = streams_.NextOverdue()) {
    Detach(*stream);
    streams_.EndOverdue(*stream);
  }
  while (VerifierSession* const session = sessions_.NextExpired()) Remove(*session);
}

void VerifierMachine::On(const Drain& event) {
  drain_deadline_ = event.deadline;
  streams_.ForEach([this](VerifierStream& stream) {
    if (stream.session) TellDraining(stream);
  });
}

// One that fires early is no harm: whoever it is for is asked whether its time has come.
void VerifierMachine::SetTimerIfSooner() {
  std::optional<MonotonicTime> first = streams_.first_deadline();
  const auto consider = [&](std::optional<MonotonicTime> at) {
    if (at && (!first || *at < *first)) first = at;
  };
  consider(sessions_.first_deadline());
  if (drain_deadline_ && moment_.now < *drain_deadline_) consider(drain_deadline_);
  if (!first || (timer_at_ && *timer_at_ <= *first)) return;
  timer_at_ = first;
  moment_.Ask(SetTimer{*first});
}

// --- messages ---

// Whether it would disturb the run that its session is in.
bool VerifierMachine::MustWait(const VerifierStream& stream,
                               const v1::ClientMessage& message) const {
  const VerifierSession* session = stream.session;
  switch (message.kind_case()) {
    case Kind::kOpen:
      session = session ? nullptr : sessions_.FindOpened(stream.caller, message.open());
      break;
    case Kind::kResume:
      session = session ? nullptr : sessions_.FindResumed(stream.caller, message.resume());
      break;
    case Kind::kAppend:
    case Kind::kTruncate:
    case Kind::kClose:
      break;
    default:
      return false;
  }
  return session && session->at_target.in_run();
}

void VerifierMachine::ReceiveHeld() {
  for (const StreamNumber number : streams_.Holders()) {
    VerifierStream& stream = *streams_.Find(number);
    // What was received before it may have ended this stream.
    if (!stream.held) continue;
    const std::unique_ptr<v1::ClientMessage> message = std::move(stream.held);
    Receive(stream, *message);
  }
}

void VerifierMachine::Receive(VerifierStream& stream, const v1::ClientMessage& message) {
  const bool is_known = message.kind_case() != Kind::KIND_NOT_SET;
  if (is_known && stream.session) {
    ReceiveNext(*stream.session, message);
  } else if (is_known) {
    ReceiveFirst(stream, message);
  }
  streams_.ReadNext(stream);
}

void VerifierMachine::ReceiveFirst(VerifierStream& stream, const v1::ClientMessage& message) {
  switch (message.kind_case()) {
    case Kind::kOpen:
      return Open(stream, message.open());
    case Kind::kResume:
      return Resume(stream, message.resume());
    default:
      return Refuse(stream, v1::Fault::MALFORMED,
                    InvalidArgument("the first message of a stream is Open or Resume"));
  }
}

void VerifierMachine::ReceiveNext(VerifierSession& session, const v1::ClientMessage& message) {
  session.identity.DeviceHasToken();
  absl::Status status;
  switch (message.kind_case()) {
    case Kind::kGrow:
      status = Follow(session, message.grow());
      break;
    case Kind::kAppend:
      status = Follow(session, message.append());
      break;
    case Kind::kTruncate:
      status = Follow(session, message.truncate());
      break;
    case Kind::kTune:
      session.Tune(message.tune());
      break;
    case Kind::kClose:
      return Close(session);
    default:
      status = InvalidArgument("this stream has its session; Open and Resume begin another stream");
      break;
  }
  if (!status.ok()) RemoveWithFault(session, FaultOf(status), status);
}

absl::Status VerifierMachine::Follow(VerifierSession& session, const v1::Grow& grow) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Grow(grow));
  session.pace.Grown(grow, *session.sequence, moment_.now);
  return absl::OkStatus();
}

absl::Status VerifierMachine::Follow(VerifierSession& session, const v1::Append& append) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Append(append));
  RootKnown(session);
  memory_.Queue(session);
  return absl::OkStatus();
}

absl::Status VerifierMachine::Follow(VerifierSession& session, const v1::Truncate& truncate) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Truncate(truncate));
  session.idle_since = moment_.now;
  memory_.Truncated(session, truncate.length());
  return absl::OkStatus();
}

void VerifierMachine::Close(VerifierSession& session) {
  VerifierStream& stream = *session.stream;
  Remove(session);
  streams_.End(stream, absl::OkStatus());
}

// --- endings ---

void VerifierMachine::Detach(VerifierStream& stream) {
  if (!stream.session) return;
  VerifierSession& session = *std::exchange(stream.session, nullptr);
  session.stream = nullptr;
  sessions_.Detached(session);
  memory_.LeaveQueue(session);
}

// The stream's session, if it has one, stays.
void VerifierMachine::Refuse(VerifierStream& stream, v1::Fault::Kind kind,
                             const absl::Status& why) {
  Detach(stream);
  streams_.Refuse(stream, kind, why);
}

void VerifierMachine::RemoveWithFault(VerifierSession& session, v1::Fault::Kind kind,
                                      const absl::Status& why) {
  if (VerifierStream* const stream = session.stream) Refuse(*stream, kind, why);
  Remove(session);
}

// Nobody finds it any more. While it is in the run it stays where the target can see it.
void VerifierMachine::Remove(VerifierSession& session) {
  if (session.stream) Detach(*session.stream);
  sessions_.Hide(session);
  if (!session.at_target.in_run()) Erase(session);
}

void VerifierMachine::Erase(VerifierSession& session) {
  memory_.Release(session);
  run_.CloseAccount(session.number);
  Caller& caller = session.caller;
  sessions_.Erase(session);
  callers_.ForgetIfUnused(caller);
}

// --- stopping ---

// A session that is writing may go on; one that is not would keep the server for nothing.
void VerifierMachine::TellDraining(VerifierStream& stream) {
  VerifierSession& session = *stream.session;
  if (session.sequence->finish() != v1::FINISH_NONE) {
    return RemoveWithFault(session, v1::Fault::DRAINING,
                           absl::UnavailableError("the server is stopping"));
  }
  stream.outbox.SetDraining().set_deadline_ms(WireMilliseconds(*drain_deadline_ - moment_.now));
  streams_.Pump(stream);
}

void VerifierMachine::EndDrain() {
  if (!drain_deadline_ || drained_) return;
  if (moment_.now >= *drain_deadline_) EndAll();
  if (streams_.size() > 0 || run_.running()) return;
  while (sessions_.size() > 0) Remove(sessions_.any());
  drained_ = true;
  moment_.Ask(Drained{});
}

void VerifierMachine::EndAll() {
  const absl::Status why = absl::UnavailableError("the server is stopping");
  streams_.ForEach([&](VerifierStream& stream) {
    if (!stream.listens()) return;
    VerifierSession* const session = stream.session;
    Refuse(stream, v1::Fault::DRAINING, why);
    if (session) Remove(*session);
  });
}

void VerifierMachine::CheckInvariants() const {
  streams_.CheckInvariants(run_.running());
  sessions_.CheckInvariants();
  memory_.CheckInvariants();
  sessions_.ForEach([this](const VerifierSession& session) {
    OUTRIDER_CHECK(!session.at_target.in_run() || run_.running(),
                   "who is in the run is in one that runs");
    OUTRIDER_CHECK(!session.stream || session.stream->session == &session,
                   "a session and its stream know each other");
  });
  streams_.ForEach([](const VerifierStream& stream) {
    OUTRIDER_CHECK(!stream.session || stream.session->stream == &stream,
                   "a stream and its session know each other");
  });
  size_t stream_count = 0;
  size_t session_count = 0;
  callers_.ForEach([&](const Caller& caller) {
    stream_count += caller.stream_count;
    session_count += caller.session_count;
  });
  OUTRIDER_CHECK(stream_count == streams_.size(), "every stream is counted at its caller");
  OUTRIDER_CHECK(session_count == sessions_.size(), "every session is counted at its caller");
}

}  // namespace outrider
