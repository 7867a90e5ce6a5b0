// How streams and sessions of the verifier machine come together.
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/wire_time.h"

namespace outrider {

// --- Open ---

void VerifierMachine::Open(VerifierStream& stream, const v1::Open& open) {
  if (VerifierSession* const session = sessions_.FindOpened(stream.caller, open)) {
    OpenAgain(stream, open, *session);
  } else {
    OpenNew(stream, open);
  }
}

void VerifierMachine::OpenNew(VerifierStream& stream, const v1::Open& open) {
  if (drain_deadline_) {
    return Refuse(stream, v1::Fault::DRAINING, absl::UnavailableError("the server is stopping"));
  }
  if (const absl::Status status = CheckCompatible(open); !status.ok()) {
    return Refuse(stream, v1::Fault::MISMATCH, status);
  }
  if (!sessions_.HasRoomFor(stream.caller)) return RefuseForWantOfRoom(stream);
  const VerifiedSequence::Limits limits = {
      .vocabulary_size = static_cast<int32_t>(config_.vocabulary_size),
      .context_length = length_max_,
      .pass_nodes_max = config_.pass_nodes_max,
      .sketch_nodes_max = config_.sketch_nodes_max};
  auto sequence = VerifiedSequence::Create(open, parts_.tokenizer, limits);
  if (!sequence.ok()) return Refuse(stream, v1::Fault::MALFORMED, sequence.status());
  const uint64_t number = sessions_.NextNumber();
  const auto lent = memory_.Borrow(number, stream.caller, **sequence);
  if (!lent) return RefuseForWantOfRoom(stream);

  VerifierSession& session = sessions_.Add(number, stream.caller, open, *std::move(sequence));
  memory_.Begin(session, *lent);
  run_.OpenAccount(number, stream.caller.number);
  ++counted_.sessions_opened;
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

void VerifierMachine::RefuseForWantOfRoom(VerifierStream& stream) {
  ++counted_.sessions_refused;
  Refuse(stream, v1::Fault::OVERLOADED,
         ResourceExhausted("no room for another session; come again in ",
                           WireMilliseconds(config_.retry_after), " ms"));
}

// Its answer was lost. Everything that the first one has done stands.
void VerifierMachine::OpenAgain(VerifierStream& stream, const v1::Open& open,
                                VerifierSession& session) {
  if (!session.identity.IsOpenedBy(open)) {
    return Refuse(stream, v1::Fault::MALFORMED,
                  InvalidArgument("this nonce has opened another session; every one has its own"));
  }
  if (session.identity.IsLate(open.attempt())) return RefuseLate(stream);
  v1::Opened opened;
  if (const absl::Status status = session.sequence->Attach(opened); !status.ok()) {
    return Refuse(stream, v1::Fault::MALFORMED, status);
  }
  Fence(session);
  session.identity.Reopen(open);
  AnswerOpen(stream, session, opened);
}

void VerifierMachine::AnswerOpen(VerifierStream& stream, VerifierSession& session,
                                 v1::Opened& opened) {
  opened.set_session(session.identity.id());
  opened.set_token(session.identity.token());
  opened.set_time_to_live_ms(WireMilliseconds(config_.time_to_live));
  opened.set_numerics_id(config_.numerics_id);
  stream.outbox.AddOpened().Swap(&opened);
  Attach(stream, session);
}

// --- Resume ---

void VerifierMachine::Resume(VerifierStream& stream, const v1::Resume& resume) {
  VerifierSession* const session = sessions_.FindResumed(stream.caller, resume);
  if (!session) {
    return Refuse(stream, v1::Fault::UNKNOWN_SESSION,
                  NotFound("there is no such session, or not with this token; open a new one with "
                           "the committed tokens"));
  }
  if (session->identity.IsLate(resume.attempt())) return RefuseLate(stream);
  Fence(*session);
  v1::Resumed resumed;
  if (const absl::Status status = session->sequence->Resume(resume, resumed); !status.ok()) {
    Remove(*session);
    return Refuse(stream, v1::Fault::DRIFTED, status);
  }
  session->identity.Resume(resume);
  resumed.set_token(session->identity.token());
  stream.outbox.AddResumed().Swap(&resumed);
  Attach(stream, *session);
}

// --- both ---

// The device has given this stream up and asked for another, which has come before it.
void VerifierMachine::RefuseLate(VerifierStream& stream) {
  Refuse(stream, v1::Fault::SUPERSEDED,
         absl::AbortedError("a newer stream has attached to this session"));
}

void VerifierMachine::Fence(VerifierSession& session) {
  if (!session.stream) return;
  Refuse(*session.stream, v1::Fault::SUPERSEDED,
         absl::AbortedError("another stream has attached to this session"));
}

// The answer is in the outbox.
void VerifierMachine::Attach(VerifierStream& stream, VerifierSession& session) {
  streams_.Attached(stream);
  stream.session = &session;
  session.stream = &stream;
  RootKnown(session);
  memory_.Queue(session);
  ++counted_.attachments;
  if (drain_deadline_) TellDraining(stream);
  streams_.Pump(stream);
}

}  // namespace outrider
