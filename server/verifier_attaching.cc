// How streams and sessions of the verifier machine come together.
#include <functional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "server/verifier_machine.h"
#include "server/verifier_parts.h"
#include "server/wire_time.h"

namespace outrider {
namespace {

// Two that are equal but for the attempt are one device asking twice.
size_t HashOf(v1::Open open) {
  open.clear_attempt();
  return std::hash<std::string>()(open.SerializeAsString());
}

}  // namespace

// --- Open ---

void VerifierMachine::OnOpen(Stream& stream, const v1::Open& open) {
  if (Session* const session = FindOpened(stream, open)) {
    OpenAgain(stream, open, *session);
  } else {
    OpenNew(stream, open);
  }
}

VerifierMachine::Session* VerifierMachine::FindOpened(const Stream& stream, const v1::Open& open) {
  const auto found = sessions_by_nonce_.find({stream.caller.number, open.nonce()});
  return found == sessions_by_nonce_.end() ? nullptr : found->second;
}

void VerifierMachine::OpenNew(Stream& stream, const v1::Open& open) {
  if (drain_deadline_) {
    return Refuse(stream, v1::Fault::DRAINING, absl::UnavailableError("the server is stopping"));
  }
  if (const absl::Status status = CheckCompatible(open); !status.ok()) {
    return Refuse(stream, v1::Fault::MISMATCH, status);
  }
  if (!HasRoomFor(stream.caller)) return RefuseForWantOfRoom(stream);
  const VerifiedSequence::Limits limits = {
      .vocabulary_size = static_cast<int32_t>(config_.vocabulary_size),
      .context_length = length_max_,
      .pass_nodes_max = config_.pass_nodes_max,
      .sketch_nodes_max = config_.sketch_nodes_max};
  absl::StatusOr<std::unique_ptr<VerifiedSequence>> sequence =
      VerifiedSequence::Create(open, parts_.tokenizer, limits);
  if (!sequence.ok()) return Refuse(stream, v1::Fault::MALFORMED, sequence.status());
  // Who has waited for memory comes first.
  if (!memory_queue_.empty() || !MakeRoom(PagesOf(**sequence))) return RefuseForWantOfRoom(stream);

  Session& session = AddSession(stream.caller, open, *std::move(sequence));
  TakeMemory(session);
  ++stats_.sessions_opened;
  v1::Opened opened;
  OUTRIDER_CHECK_OK(session.sequence->Attach(opened));
  AnswerOpen(stream, session, opened);
}

absl::Status VerifierMachine::CheckCompatible(const v1::Open& open) const {
  const auto differs = [](const std::string& device, const std::string& server) {
    return !device.empty() && device != server;
  };
  if (differs(open.tokenizer_fingerprint(), config_.tokenizer_fingerprint)) {
    return FailedPrecondition("the device's tokenizer is ", open.tokenizer_fingerprint(),
                              ", and that of ", config_.model_name, " here is ",
                              config_.tokenizer_fingerprint, "; use a draft of the same family");
  }
  if (differs(open.numerics_id(), config_.numerics_id)) {
    return FailedPrecondition("the device asks for numerics id ", open.numerics_id(), ", and ",
                              config_.model_name, " here has ", config_.numerics_id,
                              ": its text may differ");
  }
  return absl::OkStatus();
}

bool VerifierMachine::HasRoomFor(const Caller& caller) const {
  return sessions_.size() < config_.session_count_max &&
         caller.session_count < config_.session_count_of_key_max;
}

void VerifierMachine::RefuseForWantOfRoom(Stream& stream) {
  ++stats_.sessions_refused;
  Refuse(stream, v1::Fault::OVERLOADED,
         ResourceExhausted("no room for another session; come again in ",
                           WireMilliseconds(config_.retry_after), " ms"));
}

VerifierMachine::Session& VerifierMachine::AddSession(Caller& caller, const v1::Open& open,
                                                      std::unique_ptr<VerifiedSequence> sequence) {
  auto added = std::make_unique<Session>(parts_.random_bits);
  Session& session = *added;
  session.number = ++session_number_;
  session.caller = &caller;
  session.nonce = open.nonce();
  session.open_hash = HashOf(open);
  session.attempt = open.attempt();
  session.wants_hints = open.hints();
  session.dry_policy = open.dry_policy();
  session.page_count = PagesOf(*sequence);
  session.sequence = std::move(sequence);
  ++caller.session_count;
  scheduler_.Open(session.number, caller.number);
  sessions_by_id_.insert({session.id, &session});
  sessions_by_nonce_.insert({{caller.number, session.nonce}, &session});
  sessions_.insert({session.number, std::move(added)});
  return session;
}

// Its answer was lost. Everything that the first one has done stands.
void VerifierMachine::OpenAgain(Stream& stream, const v1::Open& open, Session& session) {
  if (HashOf(open) != session.open_hash) {
    return Refuse(stream, v1::Fault::MALFORMED,
                  InvalidArgument("this nonce has opened another session; every one has its own"));
  }
  if (open.attempt() <= session.attempt) return RefuseLate(stream);
  v1::Opened opened;
  if (const absl::Status status = session.sequence->Attach(opened); !status.ok()) {
    return Refuse(stream, v1::Fault::MALFORMED, status);
  }
  Fence(session);
  session.attempt = open.attempt();
  session.token = ResumeToken(parts_.random_bits);
  session.old_token.reset();
  AnswerOpen(stream, session, opened);
}

void VerifierMachine::AnswerOpen(Stream& stream, Session& session, v1::Opened& opened) {
  opened.set_session(session.id);
  opened.set_token(session.token.Bytes());
  opened.set_time_to_live_ms(WireMilliseconds(config_.time_to_live));
  opened.set_numerics_id(config_.numerics_id);
  stream.outbox.AddOpened().Swap(&opened);
  Attach(stream, session);
}

// --- Resume ---

void VerifierMachine::OnResume(Stream& stream, const v1::Resume& resume) {
  Session* const session = FindResumed(stream, resume);
  if (!session) {
    return Refuse(stream, v1::Fault::UNKNOWN_SESSION,
                  NotFound("there is no such session, or not with this token; open a new one with "
                           "the committed tokens"));
  }
  if (resume.attempt() <= session->attempt) return RefuseLate(stream);
  Fence(*session);
  session->attempt = resume.attempt();
  v1::Resumed resumed;
  if (const absl::Status status = session->sequence->Resume(resume, resumed); !status.ok()) {
    Remove(*session);
    return Refuse(stream, v1::Fault::DRIFTED, status);
  }
  // A token that was the newest one is good once more: this answer may be lost as well.
  if (session->token.Matches(resume.token())) session->old_token = session->token;
  session->token = ResumeToken(parts_.random_bits);
  resumed.set_token(session->token.Bytes());
  stream.outbox.AddResumed().Swap(&resumed);
  Attach(stream, *session);
}

VerifierMachine::Session* VerifierMachine::FindResumed(const Stream& stream,
                                                       const v1::Resume& resume) {
  const auto found = sessions_by_id_.find(resume.session());
  if (found == sessions_by_id_.end()) return nullptr;
  Session& session = *found->second;
  if (session.caller != &stream.caller) return nullptr;
  const bool is_new = session.token.Matches(resume.token());
  const bool is_old = session.old_token && session.old_token->Matches(resume.token());
  return is_new || is_old ? &session : nullptr;
}

// --- both ---

// The device has given this stream up and asked for another, which has come before it.
void VerifierMachine::RefuseLate(Stream& stream) {
  Refuse(stream, v1::Fault::SUPERSEDED,
         absl::AbortedError("a newer stream has attached to this session"));
}

void VerifierMachine::Fence(Session& session) {
  if (!session.stream) return;
  Refuse(*session.stream, v1::Fault::SUPERSEDED,
         absl::AbortedError("another stream has attached to this session"));
}

// The answer is in the outbox.
void VerifierMachine::Attach(Stream& stream, Session& session) {
  stream.state = Stream::State::kAttached;
  stream.session = &session;
  session.stream = &stream;
  stream_deadlines_.SetNoLater(stream.number, stream.heard + config_.silence_max);
  TimeGrowth(session);
  WantMemory(session);
  ++stats_.attachments;
  if (drain_deadline_) TellDraining(stream);
  Pump(stream);
}

}  // namespace outrider
