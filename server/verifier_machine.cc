#include "server/verifier_machine.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "server/verifier_parts.h"
#include "server/wire_time.h"

namespace outrider {
namespace {

using Kind = v1::ClientMessage::KindCase;

constexpr uint32_t kRevision = 1;  // of verifier.proto

// What a message that cannot be followed does to its session.
v1::Fault::Kind FaultOf(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? v1::Fault::DRIFTED : v1::Fault::MALFORMED;
}

absl::StatusCode CodeOf(v1::Fault::Kind kind) {
  switch (kind) {
    case v1::Fault::SUPERSEDED:
      return absl::StatusCode::kAborted;
    case v1::Fault::UNKNOWN_SESSION:
      return absl::StatusCode::kNotFound;
    case v1::Fault::DRIFTED:
    case v1::Fault::MISMATCH:
      return absl::StatusCode::kFailedPrecondition;
    case v1::Fault::OVERLOADED:
      return absl::StatusCode::kResourceExhausted;
    case v1::Fault::DRAINING:
      return absl::StatusCode::kUnavailable;
    case v1::Fault::STALLED:
      return absl::StatusCode::kDeadlineExceeded;
    case v1::Fault::TARGET:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

}  // namespace

VerifierMachine::VerifierMachine(VerifierConfig config, Parts parts)
    : config_(std::move(config)),
      parts_(std::move(parts)),
      free_pages_(config_.page_count),
      free_sequences_(config_.sequence_count_max),
      scheduler_(config_.scheduler) {
  OUTRIDER_CHECK(config_.vocabulary_size > 0 && config_.page_tokens > 0, "a target is described");
  OUTRIDER_CHECK(config_.sequence_count_max > 0, "a target holds a sequence");
  const uint32_t scratch = PagesFor(config_.pass_nodes_max);
  OUTRIDER_CHECK(config_.page_count > scratch, "a target has memory for a token and a pass");
  const uint64_t tokens = uint64_t{config_.page_count - scratch} * config_.page_tokens;
  length_max_ = static_cast<uint32_t>(std::min<uint64_t>(tokens, config_.context_length));
}

VerifierMachine::~VerifierMachine() = default;

std::optional<VerifierMachine::StreamNumber> VerifierMachine::StreamOf(uint64_t session) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second->stream == nullptr) return std::nullopt;
  return found->second->stream->number;
}

size_t VerifierMachine::session_count() const {
  return sessions_.size();
}

size_t VerifierMachine::stream_count() const {
  return streams_.size();
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
  now_ = now;
  actions_ = &actions;
  std::visit([this](const auto& e) { On(e); }, event);
  ServeMemoryQueue();
  Schedule();
  EndDrain();
  SetTimerIfSooner();
  actions_ = nullptr;
}

void VerifierMachine::On(const StreamOpened& event) {
  if (drained_ || streams_.size() >= config_.stream_count_max) {
    actions_->push_back(EndStream{event.stream, drained_ ? absl::UnavailableError("stopping")
                                                         : ResourceExhausted("too many streams")});
    return;
  }
  Caller& caller = CallerOf(event.key);
  const auto [at, is_new] =
      streams_.insert({event.stream, std::make_unique<Stream>(event.stream, caller,
                                                              config_.unread_verdicts_max, now_)});
  OUTRIDER_CHECK(is_new, "a stream's number is given once");
  ++caller.stream_count;
  stream_deadlines_.SetNoLater(event.stream, now_ + config_.first_message_max);
  ReadNext(*at->second);
}

void VerifierMachine::On(const Received& event) {
  Stream* const stream = FindStream(event.stream);
  if (!stream) return;
  OUTRIDER_CHECK(!stream->held, "a message comes when it has been asked for");
  stream->heard = now_;
  if (MustWait(*stream, event.message)) {
    stream->held = std::make_unique<v1::ClientMessage>(event.message);
    holding_.push_back(stream->number);
    return;
  }
  Take(*stream, event.message);
}

void VerifierMachine::On(const Written& event) {
  const auto found = streams_.find(event.stream);
  if (found == streams_.end()) return;
  Stream& stream = *found->second;
  stream.heard = now_;
  stream.outbox.Written();
  Pump(stream);
}

void VerifierMachine::On(const StreamClosed& event) {
  const auto found = streams_.find(event.stream);
  if (found == streams_.end()) return;
  Stream& stream = *found->second;
  Detach(stream);
  DropHeld(stream);
  stats_.hints_overtaken += stream.outbox.hints_overtaken();
  stream_deadlines_.Remove(stream.number);
  Caller& caller = stream.caller;
  streams_.erase(found);
  --caller.stream_count;
  ForgetIfUnused(caller);
}

void VerifierMachine::On(const TimerFired&) {
  timer_at_.reset();
  while (const std::optional<uint64_t> number = stream_deadlines_.TakeDue(now_)) {
    CheckStream(*streams_.at(*number));
  }
  while (const std::optional<uint64_t> number = session_deadlines_.TakeDue(now_)) {
    CheckSession(*sessions_.at(*number));
  }
}

void VerifierMachine::On(const Drain& event) {
  drain_deadline_ = event.deadline;
  for (const auto& [number, stream] : streams_) {
    if (stream->state == Stream::State::kAttached) TellDraining(*stream);
  }
}

// A session that is writing may go on; one that is not would keep the server for nothing.
void VerifierMachine::TellDraining(Stream& stream) {
  Session& session = *stream.session;
  if (session.sequence->finish() != v1::FINISH_NONE) {
    RemoveWithFault(session, v1::Fault::DRAINING, absl::UnavailableError("the server is stopping"));
    return;
  }
  stream.outbox.SetDraining().set_deadline_ms(WireMilliseconds(*drain_deadline_ - now_));
  Pump(stream);
}

void VerifierMachine::EndDrain() {
  if (!drain_deadline_ || drained_) return;
  if (now_ >= *drain_deadline_) EndAll();
  if (!streams_.empty() || running_) return;
  while (!sessions_.empty()) Remove(*sessions_.begin()->second);
  drained_ = true;
  actions_->push_back(Drained{});
}

void VerifierMachine::EndAll() {
  const absl::Status why = absl::UnavailableError("the server is stopping");
  for (const auto& [number, stream] : streams_) {
    if (stream->state == Stream::State::kNew) Refuse(*stream, v1::Fault::DRAINING, why);
    if (stream->session) RemoveWithFault(*stream->session, v1::Fault::DRAINING, why);
  }
}

// --- messages ---

// Whether it would disturb the run that its session is in.
bool VerifierMachine::MustWait(const Stream& stream, const v1::ClientMessage& message) {
  const Session* session = stream.session;
  switch (message.kind_case()) {
    case Kind::kOpen:
      session = stream.session ? nullptr : FindOpened(stream, message.open());
      break;
    case Kind::kResume:
      session = stream.session ? nullptr : FindResumed(stream, message.resume());
      break;
    case Kind::kAppend:
    case Kind::kTruncate:
    case Kind::kClose:
      break;
    default:
      return false;
  }
  return session && session->in_run;
}

void VerifierMachine::TakeHeld() {
  std::vector<StreamNumber> holding;
  holding.swap(holding_);
  for (const StreamNumber number : holding) {
    Stream& stream = *streams_.at(number);
    // One before it may have ended this stream.
    if (!stream.held) continue;
    const std::unique_ptr<v1::ClientMessage> message = std::move(stream.held);
    Take(stream, *message);
  }
}

void VerifierMachine::Take(Stream& stream, const v1::ClientMessage& message) {
  if (message.kind_case() != Kind::KIND_NOT_SET) {
    if (stream.session) {
      TakeNext(*stream.session, message);
    } else {
      TakeFirst(stream, message);
    }
  }
  if (stream.state == Stream::State::kNew || stream.state == Stream::State::kAttached) {
    ReadNext(stream);
  }
}

void VerifierMachine::TakeFirst(Stream& stream, const v1::ClientMessage& message) {
  switch (message.kind_case()) {
    case Kind::kOpen:
      return OnOpen(stream, message.open());
    case Kind::kResume:
      return OnResume(stream, message.resume());
    default:
      return Refuse(stream, v1::Fault::MALFORMED,
                    InvalidArgument("the first message of a stream is Open or Resume"));
  }
}

void VerifierMachine::TakeNext(Session& session, const v1::ClientMessage& message) {
  session.old_token.reset();  // the device has what came after it
  absl::Status status;
  switch (message.kind_case()) {
    case Kind::kGrow:
      status = OnGrow(session, message.grow());
      break;
    case Kind::kAppend:
      status = OnAppend(session, message.append());
      break;
    case Kind::kTruncate:
      status = OnTruncate(session, message.truncate());
      break;
    case Kind::kTune:
      session.dry_policy = message.tune().dry_policy();
      break;
    case Kind::kClose:
      return OnClose(session);
    default:
      status = InvalidArgument("this stream has its session; Open and Resume begin another stream");
      break;
  }
  if (!status.ok()) RemoveWithFault(session, FaultOf(status), status);
}

absl::Status VerifierMachine::OnGrow(Session& session, const v1::Grow& grow) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Grow(grow));
  if (grow.tokens().empty()) return absl::OkStatus();
  session.last_growth = now_;
  session.dry.Grown(grow.seen(), now_);
  session.due.Grown(grow.seen(), session.sequence->Promise(), now_);
  return absl::OkStatus();
}

absl::Status VerifierMachine::OnAppend(Session& session, const v1::Append& append) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Append(append));
  TimeGrowth(session);
  WantMemory(session);
  return absl::OkStatus();
}

absl::Status VerifierMachine::OnTruncate(Session& session, const v1::Truncate& truncate) {
  OUTRIDER_RETURN_IF_ERROR(session.sequence->Truncate(truncate));
  session.idle_since = now_;
  if (truncate.length() >= session.read_count) return absl::OkStatus();
  session.read_count = truncate.length();
  if (session.target_id) session.truncate_to = truncate.length();
  return absl::OkStatus();
}

void VerifierMachine::OnClose(Session& session) {
  Stream& stream = *session.stream;
  Remove(session);
  End(stream, absl::OkStatus());
}

// --- endings ---

// The stream's session, if it has one, stays.
void VerifierMachine::Refuse(Stream& stream, v1::Fault::Kind kind, const absl::Status& why) {
  ++stats_.faults;
  v1::Fault& fault = stream.outbox.AddFault();
  fault.set_kind(kind);
  fault.set_message(std::string(Message(why)));
  if (kind == v1::Fault::OVERLOADED) fault.set_retry_ms(WireMilliseconds(config_.retry_after));
  End(stream, absl::Status(CodeOf(kind), why.message()));
}

void VerifierMachine::End(Stream& stream, absl::Status status) {
  Detach(stream);
  stream.state = Stream::State::kEnding;
  stream.end = std::move(status);
  DropHeld(stream);
  stream_deadlines_.SetNoLater(stream.number, now_ + config_.write_max);
  Pump(stream);
}

void VerifierMachine::DropHeld(Stream& stream) {
  if (!stream.held) return;
  stream.held.reset();
  std::erase(holding_, stream.number);
}

void VerifierMachine::Detach(Stream& stream) {
  if (!stream.session) return;
  Session& session = *stream.session;
  stream.session = nullptr;
  session.stream = nullptr;
  session.idle_since = now_;
  session_deadlines_.SetNoLater(session.number, now_ + config_.time_to_live);
  LeaveMemoryQueue(session);
}

void VerifierMachine::RemoveWithFault(Session& session, v1::Fault::Kind kind,
                                      const absl::Status& why) {
  Stream* const stream = session.stream;
  if (stream) Refuse(*stream, kind, why);
  Remove(session);
}

// Nobody finds it any more. While it is in the run it stays where the target can see it.
void VerifierMachine::Remove(Session& session) {
  if (session.stream) {
    session.stream->session = nullptr;
    session.stream = nullptr;
  }
  if (!session.gone) {
    sessions_by_id_.erase(session.id);
    sessions_by_nonce_.erase({session.caller->number, session.nonce});
    session.gone = true;
  }
  if (!session.in_run) Erase(session);
}

void VerifierMachine::Erase(Session& session) {
  LeaveMemoryQueue(session);
  ReleaseMemory(session);
  scheduler_.Close(session.number);
  session_deadlines_.Remove(session.number);
  Caller& caller = *session.caller;
  sessions_.erase(session.number);
  --caller.session_count;
  ForgetIfUnused(caller);
}

// A deadline of a stream has come, unless something has happened meanwhile.
void VerifierMachine::CheckStream(Stream& stream) {
  const MonotonicTime deadline = DeadlineOf(stream);
  if (now_ < deadline) {
    stream_deadlines_.SetNoLater(stream.number, deadline);
  } else if (stream.outbox.writing()) {
    Detach(stream);
    stream.state = Stream::State::kEnded;
    DropHeld(stream);
    actions_->push_back(
        EndStream{stream.number, absl::DeadlineExceededError("the device has stopped reading")});
  } else {
    Refuse(stream, v1::Fault::STALLED,
           absl::DeadlineExceededError("the device has been silent for too long"));
  }
}

MonotonicTime VerifierMachine::DeadlineOf(const Stream& stream) const {
  if (stream.outbox.writing()) return stream.write_begin + config_.write_max;
  if (stream.held) return now_ + config_.first_message_max;  // it is the target that is slow
  if (stream.state == Stream::State::kNew) return stream.opened + config_.first_message_max;
  return stream.heard + config_.silence_max;
}

// Its time to live, or to go on alone; Schedule() sees to the latter.
void VerifierMachine::CheckSession(Session& session) {
  if (session.stream || session.gone) return;
  const MonotonicTime deadline = session.idle_since + config_.time_to_live;
  if (now_ < deadline) {
    session_deadlines_.SetNoLater(session.number, deadline);
  } else {
    Remove(session);
  }
}

// --- streams ---

VerifierMachine::Caller& VerifierMachine::CallerOf(std::string_view key) {
  const auto found = callers_.find(key);
  if (found != callers_.end()) return *found->second;
  auto caller = std::make_unique<Caller>(Caller{std::string(key), ++caller_number_});
  return *callers_.emplace(std::string(key), std::move(caller)).first->second;
}

void VerifierMachine::ForgetIfUnused(const Caller& caller) {
  if (caller.session_count == 0 && caller.stream_count == 0) callers_.erase(caller.key);
}

// One that still listens.
VerifierMachine::Stream* VerifierMachine::FindStream(StreamNumber number) {
  const auto found = streams_.find(number);
  if (found == streams_.end()) return nullptr;
  Stream& stream = *found->second;
  return stream.listens() ? &stream : nullptr;
}

void VerifierMachine::ReadNext(Stream& stream) {
  actions_->push_back(Read{stream.number});
}

void VerifierMachine::Pump(Stream& stream) {
  if (stream.state == Stream::State::kEnded) return;
  if (const v1::ServerMessage* const message = stream.outbox.Next(now_)) {
    stream.write_begin = now_;
    stream_deadlines_.SetNoLater(stream.number, now_ + config_.write_max);
    actions_->push_back(Send{stream.number, message});
  } else if (stream.state == Stream::State::kEnding && !stream.outbox.writing()) {
    stream.state = Stream::State::kEnded;
    stream_deadlines_.Remove(stream.number);
    actions_->push_back(EndStream{stream.number, stream.end});
  }
}

// One that fires early is no harm: whoever it is for is asked whether its time has come.
void VerifierMachine::SetTimerIfSooner() {
  std::optional<MonotonicTime> first = stream_deadlines_.first();
  const auto consider = [&](std::optional<MonotonicTime> at) {
    if (at && (!first || *at < *first)) first = at;
  };
  consider(session_deadlines_.first());
  if (drain_deadline_ && now_ < *drain_deadline_) consider(drain_deadline_);
  if (!first || (timer_at_ && *timer_at_ <= *first)) return;
  timer_at_ = first;
  actions_->push_back(SetTimer{*first});
}

void VerifierMachine::CheckInvariants() const {
  uint32_t pages = free_pages_;
  uint32_t sequences = free_sequences_;
  size_t queued = 0;
  for (const auto& [number, session] : sessions_) {
    using Memory = Session::Memory;
    if (session->memory == Memory::kReserved) {
      pages += session->page_count;
      ++sequences;
    }
    if (session->memory == Memory::kQueued) ++queued;
    OUTRIDER_CHECK(!session->target_id || session->memory == Memory::kReserved,
                   "what is at the target has its memory reserved");
    OUTRIDER_CHECK(session->read_count <= session->sequence->history().size(),
                   "the target has read what is committed");
    OUTRIDER_CHECK(!session->in_run || running_, "who is in the run is in one that runs");
    OUTRIDER_CHECK(!session->sequence->in_pass() || session->in_run, "a pass is in a run");
    OUTRIDER_CHECK(!session->gone || (session->in_run && !session->stream),
                   "what is gone stays for the run alone");
    OUTRIDER_CHECK(!session->stream || session->stream->session == session.get(),
                   "a session and its stream know each other");
    OUTRIDER_CHECK(session->gone || sessions_by_id_.at(session->id) == session.get(),
                   "a session is found by its name");
    OUTRIDER_CHECK(session->stream || session->gone || session_deadlines_.Has(number),
                   "a session without a stream will not stay for ever");
  }
  OUTRIDER_CHECK(pages == config_.page_count, "every page is free or somebody's");
  OUTRIDER_CHECK(sequences == config_.sequence_count_max, "every sequence is free or somebody's");
  OUTRIDER_CHECK(queued == memory_queue_.size(), "who waits for memory stands in the queue");
  OUTRIDER_CHECK(sessions_.size() <= config_.session_count_max, "sessions are bounded");
  OUTRIDER_CHECK(streams_.size() <= config_.stream_count_max, "streams are bounded");
  OUTRIDER_CHECK(session_deadlines_.size() <= sessions_.size(), "a session has one deadline");
  OUTRIDER_CHECK(holding_.size() <= streams_.size(), "a stream holds one message");
  size_t stream_count = 0;
  size_t session_count = 0;
  for (const auto& [key, caller] : callers_) {
    stream_count += caller->stream_count;
    session_count += caller->session_count;
  }
  OUTRIDER_CHECK(stream_count == streams_.size(), "every stream is counted at its caller");
  OUTRIDER_CHECK(session_count == sessions_.size(), "every session is counted at its caller");
  for (const auto& [number, stream] : streams_) {
    using State = Stream::State;
    OUTRIDER_CHECK((stream->state == State::kAttached) == (stream->session != nullptr),
                   "a stream that is attached has a session, and no other has");
    OUTRIDER_CHECK(!stream->session || stream->session->stream == stream.get(),
                   "a stream and its session know each other");
    OUTRIDER_CHECK(stream->outbox.unread_verdict_count() <= config_.unread_verdicts_max,
                   "unread verdicts are bounded");
    OUTRIDER_CHECK(stream->state == State::kEnded || stream_deadlines_.Has(number),
                   "a stream will not stay as it is for ever");
    OUTRIDER_CHECK(!stream->held || running_, "a message waits for nothing but a run");
  }
}

}  // namespace outrider
