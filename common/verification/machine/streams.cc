#include "common/verification/machine/streams.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/own_limit.h"
#include "common/verification/wire_time.h"

namespace outrider {
namespace {

using State = VerifierStream::State;

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

Streams::Streams(const Limits& limits, const Moment& moment) : limits_(limits), moment_(moment) {}

VerifierStream& Streams::Open(StreamNumber number, Caller& caller, Origin* origin) {
  OUTRIDER_CHECK(!full(), "streams are bounded");
  const auto [at, is_new] = streams_.insert(
      {number, std::make_unique<VerifierStream>(number, caller, origin, limits_.unread_verdicts_max,
                                                limits_.messages_per_second, moment_.now)});
  OUTRIDER_CHECK(is_new, "a stream's number is given once");
  ++caller.stream_count;
  deadlines_.SetNoLater(number, moment_.now + limits_.first_message_max);
  return *at->second;
}

void Streams::Close(VerifierStream& stream) {
  OUTRIDER_CHECK(stream.session == nullptr, "a stream is separated from its session first");
  Silence(stream);
  hints_overtaken_ += stream.outbox.hints_overtaken();
  deadlines_.Remove(stream.number);
  --stream.caller.stream_count;
  streams_.erase(stream.number);
}

VerifierStream* Streams::Find(StreamNumber number) {
  const auto found = streams_.find(number);
  return found == streams_.end() ? nullptr : found->second.get();
}

VerifierStream* Streams::FindListening(StreamNumber number) {
  VerifierStream* const stream = Find(number);
  return stream && stream->listens() ? stream : nullptr;
}

// --- up and down ---

void Streams::Attached(VerifierStream& stream) {
  stream.state = State::kAttached;
  deadlines_.SetNoLater(stream.number, stream.heard + limits_.silence_max);
}

void Streams::Took(VerifierStream& stream, const v1::ClientMessage& message) {
  stream.heard = moment_.now;
  stream.pace.Took(message.has_grow() ? 1 : MessagePace::kEdit, moment_.now);
}

void Streams::ReadNext(const VerifierStream& stream, VerifierEvents::Work work) {
  if (const MonotonicTime at = stream.pace.NextAt(); at > moment_.now) {
    return reads_.SetNoLater(stream.number, at);
  }
  moment_.Ask(VerifierEvents::Read{stream.number, work});
}

VerifierStream* Streams::NextReader() {
  const std::optional<uint64_t> number = reads_.TakeDue(moment_.now);
  return number ? Find(*number) : nullptr;
}

void Streams::KeepPlace(VerifierStream& stream) {
  if (std::exchange(stream.has_place, true)) return;
  ++stream.caller.places_kept;
  ++places_kept_;
}

void Streams::FreePlace(VerifierStream& stream) {
  if (!std::exchange(stream.has_place, false)) return;
  --stream.caller.places_kept;
  --places_kept_;
}

void Streams::Pump(VerifierStream& stream) {
  if (stream.state == State::kEnded) return;
  if (const v1::ServerMessage* const message = stream.outbox.Next(moment_.now)) {
    stream.write_begin = moment_.now;
    deadlines_.SetNoLater(stream.number, moment_.now + limits_.write_max);
    moment_.Ask(VerifierEvents::Send{stream.number, message});
  } else if (stream.state == State::kEnding && !stream.outbox.writing()) {
    stream.state = State::kEnded;
    deadlines_.Remove(stream.number);
    moment_.Ask(VerifierEvents::EndStream{stream.number, stream.end});
  }
}

void Streams::Written(VerifierStream& stream) {
  stream.heard = moment_.now;
  stream.outbox.Written();
  Pump(stream);
}

void Streams::Hold(VerifierStream& stream, const v1::ClientMessage& message,
                   VerifierEvents::Prepared* prepared) {
  stream.held = std::make_unique<VerifierStream::Held>();
  stream.held->message = message;
  if (prepared) stream.held->prepared.emplace(std::move(*prepared));
  holders_.push_back(stream.number);
}

std::vector<Streams::StreamNumber> Streams::Holders() {
  return std::exchange(holders_, {});
}

// Nothing of what it has said, or was about to say, matters any more.
void Streams::Silence(VerifierStream& stream) {
  FreePlace(stream);
  reads_.Remove(stream.number);
  if (!stream.held) return;
  stream.held.reset();
  std::erase(holders_, stream.number);
}

// --- endings ---

void Streams::Refuse(VerifierStream& stream, v1::Fault::Kind kind, const absl::Status& why) {
  Report(stream, kind, why);
  v1::Fault& fault = stream.outbox.AddFault();
  fault.set_kind(kind);
  fault.set_message(std::string(Message(why)));
  if (kind == v1::Fault::OVERLOADED) fault.set_retry_ms(WireMilliseconds(limits_.retry_after));
  End(stream, OfOwnLimit(absl::Status(CodeOf(kind), why.message()), IsOfOwnLimit(why)));
}

void Streams::Report(const VerifierStream& stream, v1::Fault::Kind kind, const absl::Status& why) {
  ++fault_counts_[kind];
  moment_.Ask(VerifierEvents::FaultFound{.stream = stream.number,
                                         .session = stream.session_number,
                                         .key = stream.caller.key,
                                         .kind = kind,
                                         .why = std::string(Message(why))});
}

void Streams::End(VerifierStream& stream, absl::Status status) {
  OUTRIDER_CHECK(stream.session == nullptr, "a stream is separated from its session first");
  stream.state = State::kEnding;
  stream.end = std::move(status);
  Silence(stream);
  deadlines_.SetNoLater(stream.number, moment_.now + limits_.write_max);
  Pump(stream);
}

// A deadline that has come is none any more when something has happened meanwhile.
VerifierStream* Streams::NextOverdue() {
  while (const std::optional<uint64_t> number = deadlines_.TakeDue(moment_.now)) {
    VerifierStream& stream = *streams_.at(*number);
    const MonotonicTime deadline = DeadlineOf(stream);
    if (moment_.now >= deadline) return &stream;
    deadlines_.SetNoLater(*number, deadline);
  }
  return nullptr;
}

void Streams::EndOverdue(VerifierStream& stream) {
  if (!stream.outbox.writing()) {
    return Refuse(stream, v1::Fault::STALLED,
                  absl::DeadlineExceededError("the device has been silent for too long"));
  }
  const absl::Status why = absl::DeadlineExceededError("the device has stopped reading");
  Report(stream, v1::Fault::STALLED, why);
  stream.state = State::kEnded;
  Silence(stream);
  moment_.Ask(VerifierEvents::EndStream{stream.number, why});
}

MonotonicTime Streams::DeadlineOf(const VerifierStream& stream) const {
  if (stream.outbox.writing()) return stream.write_begin + limits_.write_max;
  // It is the target that is slow.
  if (stream.held) return moment_.now + limits_.first_message_max;
  if (stream.state == State::kNew) return stream.opened + limits_.first_message_max;
  return stream.heard + limits_.silence_max;
}

void Streams::CheckInvariants(bool running) const {
  OUTRIDER_CHECK(streams_.size() <= limits_.stream_count_max, "streams are bounded");
  OUTRIDER_CHECK(holders_.size() <= streams_.size(), "a stream holds one message");
  OUTRIDER_CHECK(deadlines_.size() <= streams_.size(), "a stream has one deadline");
  OUTRIDER_CHECK(reads_.size() <= streams_.size(), "a stream is read one message at a time");
  for (const auto& [number, stream] : streams_) {
    OUTRIDER_CHECK((stream->state == State::kAttached) == (stream->session != nullptr),
                   "a stream that is attached has a session, and no other has");
    OUTRIDER_CHECK(stream->outbox.unread_verdict_count() <= limits_.unread_verdicts_max,
                   "unread verdicts are bounded");
    OUTRIDER_CHECK(stream->state == State::kEnded || deadlines_.Has(number),
                   "a stream will not stay as it is for ever");
    OUTRIDER_CHECK(!stream->held || running, "a message waits for nothing but a run");
  }
}

}  // namespace outrider
