#include "client/verifier/local_verifier.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/fingerprint.h"

namespace outrider {
namespace {

uint32_t Microseconds(Duration duration) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

absl::Status CheckFingerprint(const std::string& device, const std::string& here) {
  if (device.empty() || device == here) return absl::OkStatus();
  return FailedPrecondition("the draft's tokenizer has fingerprint ", device, " and the target's ",
                            here, "; take a draft of the same family");
}

absl::Status CheckNumerics(const std::string& device, const std::string& here) {
  if (device.empty() || device == here) return absl::OkStatus();
  return FailedPrecondition("numerics id ", device, " was asked for, and the target's is ", here);
}

// A message that breaks the contract, or one about other tokens.
v1::Fault::Kind KindOf(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? v1::Fault::DRIFTED : v1::Fault::MALFORMED;
}

}  // namespace

LocalVerifier::LocalVerifier(Target& target, const Tokenizer& tokenizer, uint32_t sketch_nodes_max)
    : target_(target),
      tokenizer_(tokenizer),
      sketch_nodes_max_(sketch_nodes_max),
      fingerprint_(FingerprintDigits(tokenizer.fingerprint())),
      thread_([this] { Run(); }) {}

LocalVerifier::~LocalVerifier() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  mailed_.NotifyAll();
  thread_.join();
}

void LocalVerifier::Open(uint64_t stream, Listener& listener) {
  Post({Mail::Kind::kOpen, stream, &listener, {}});
}

void LocalVerifier::Send(uint64_t stream, const v1::ClientMessage& message) {
  Post({Mail::Kind::kMessage, stream, nullptr, message});
}

void LocalVerifier::Close(uint64_t stream) {
  Post({Mail::Kind::kClose, stream, nullptr, {}});
}

void LocalVerifier::Read(uint64_t) {
  {
    MutexLock lock(mu_);
    if (unread_ > 0) --unread_;
  }
  mailed_.NotifyAll();
}

void LocalVerifier::Post(Mail mail) {
  {
    MutexLock lock(mu_);
    mail_.push_back(std::move(mail));
  }
  mailed_.NotifyAll();
}

// Memory is far nearer than any link.
CostModel::Assumed LocalVerifier::Forecast() const {
  CostModel::Assumed assumed;
  assumed.round_trip_ms = 0.1;
  return assumed;
}

// --- mail ---

void LocalVerifier::Run() {
  for (;;) {
    const std::optional<MonotonicTime> work_at = WorkAt();
    if (const std::optional<Mail> mail = NextMail(work_at)) {
      Take(*mail);
    } else if (work_at && !stopping()) {
      Work();
    } else {
      break;
    }
  }
  EndStream(absl::CancelledError("the verifier is gone"));
}

// None: there is work to do instead, and somebody to read of it; or there will be no mail any more.
std::optional<LocalVerifier::Mail> LocalVerifier::NextMail(std::optional<MonotonicTime> work_at) {
  MutexLock lock(mu_);
  while (mail_.empty() && !stopping_) {
    if (!work_at || unread_ >= kUnreadMax) {
      mailed_.Wait(mu_);
    } else if (RealClock().Now() >= *work_at) {
      break;
    } else {
      mailed_.WaitUntil(mu_, *work_at);
    }
  }
  if (mail_.empty()) return std::nullopt;
  Mail mail = std::move(mail_.front());
  mail_.pop_front();
  return mail;
}

bool LocalVerifier::stopping() const {
  MutexLock lock(mu_);
  return stopping_;
}

// Whatever a prompt that is being read should not be read on for.
bool LocalVerifier::HasUrgentMail() const {
  MutexLock lock(mu_);
  return stopping_ || std::ranges::any_of(mail_, [](const Mail& mail) {
           return mail.kind != Mail::Kind::kMessage || !mail.message.has_grow();
         });
}

void LocalVerifier::Take(const Mail& mail) {
  switch (mail.kind) {
    case Mail::Kind::kOpen:
      EndStream(absl::CancelledError("another stream has begun"));
      stream_ = mail.stream;
      listener_ = mail.listener;
      ForgetUnread();
      return;
    case Mail::Kind::kMessage:
      if (listener_ == nullptr || mail.stream != stream_) return;
      listener_->OnWritten(stream_);
      return Take(mail.message);
    case Mail::Kind::kClose:
      if (mail.stream == stream_) EndStream(absl::CancelledError("the stream was closed"));
      return;
  }
}

void LocalVerifier::Take(const v1::ClientMessage& message) {
  if (message.has_open()) return OpenSession(message.open());
  if (message.has_close()) return EndStream(absl::OkStatus());
  if (!session_) {
    return Fail(v1::Fault::UNKNOWN_SESSION, NotFound("there is no session; open one"));
  }
  absl::Status status;
  switch (message.kind_case()) {
    case v1::ClientMessage::kGrow:
      growth_at_ = RealClock().Now();
      status = session_->Grow(message.grow());
      if (message.grow().tokens_size() > 0) {
        due_.Grown(message.grow().seen(), session_->Promise(), growth_at_);
      }
      break;
    case v1::ClientMessage::kAppend:
      status = session_->Append(message.append());
      due_.RootKnown(session_->verdict_count(), session_->Promise(), RealClock().Now());
      break;
    case v1::ClientMessage::kTruncate:
      status = session_->Truncate(message.truncate());
      break;
    case v1::ClientMessage::kTune:
      alone_ = message.tune().dry_policy() == v1::DRY_POLICY_ALONE;
      break;
    default:
      break;
  }
  if (!status.ok()) return Fail(KindOf(status), status);
  ForgetEdited();
}

void LocalVerifier::OpenSession(const v1::Open& open) {
  if (session_) {
    return Fail(v1::Fault::MALFORMED,
                InvalidArgument("a stream has one session, and opens it once"));
  }
  const TargetInfo& info = target_.info();
  absl::Status status = CheckFingerprint(open.tokenizer_fingerprint(), fingerprint_);
  if (status.ok()) status = CheckNumerics(open.numerics_id(), info.numerics_id.ToString());
  if (!status.ok()) return Fail(v1::Fault::MISMATCH, status);

  auto session =
      VerifiedSequence::Create(open, tokenizer_,
                               {.vocabulary_size = static_cast<int32_t>(info.vocabulary_size),
                                .context_length = info.context_length,
                                .pass_nodes_max = info.node_count_max,
                                .sketch_nodes_max = sketch_nodes_max_});
  if (!session.ok()) return Fail(v1::Fault::MALFORMED, session.status());
  const auto sequence = target_.CreateSequence();
  if (!sequence.ok()) return Fail(v1::Fault::TARGET, sequence.status());
  session_ = *std::move(session);
  sequence_ = *sequence;
  computed_ = 0;
  due_ = GrowthDue();
  alone_ = open.dry_policy() == v1::DRY_POLICY_ALONE;

  v1::ServerMessage message;
  v1::Opened& opened = *message.mutable_opened();
  // Never asked for: the session ends with its stream.
  opened.set_session("local");
  opened.set_token("local");
  opened.set_numerics_id(info.numerics_id.ToString());
  OUTRIDER_CHECK_OK(session_->Attach(opened));
  Tell(std::move(message));
}

// The target has no more of the tokens than the session.
void LocalVerifier::ForgetEdited() {
  const auto length = static_cast<uint32_t>(session_->history().size());
  if (computed_ <= length) return;
  OUTRIDER_CHECK_OK(target_.Truncate(sequence_, length));
  computed_ = length;
}

// --- work ---

// From when there is something to do; none: not before something happens.
std::optional<MonotonicTime> LocalVerifier::WorkAt() const {
  if (!session_ || !session_->writing()) return std::nullopt;
  const bool has_to_read = computed_ < session_->history().size();
  if (alone_ && !has_to_read && !session_->told_to_go()) return due_.BeginAt();
  if (has_to_read || session_->has_growth() || session_->told_to_go()) return MonotonicTime();
  return std::nullopt;
}

void LocalVerifier::Work() {
  const absl::Status status = computed_ < session_->history().size() ? ReadPrompt() : RunPass();
  if (!status.ok()) Fail(v1::Fault::TARGET, status);
}

absl::Status LocalVerifier::ReadPrompt() {
  const MonotonicTime begin = RealClock().Now();
  const auto tokens = session_->history().tokens().subspan(computed_);
  const absl::Status status =
      target_.Prefill(sequence_, tokens, [&](uint32_t processed, uint32_t total) {
        v1::ServerMessage message;
        v1::PromptProgress& progress = *message.mutable_progress();
        progress.set_total(total);
        progress.set_cache(computed_);
        progress.set_processed(processed);
        progress.set_time_ms(Microseconds(RealClock().Now() - begin) / 1000);
        Tell(std::move(message));
        return !HasUrgentMail();
      });
  OUTRIDER_ASSIGN_OR_RETURN(computed_, target_.Length(sequence_));
  return absl::IsCancelled(status) ? absl::OkStatus() : status;
}

absl::Status LocalVerifier::RunPass() {
  const MonotonicTime begin = RealClock().Now();
  const MonotonicTime seen_at = growth_at_;
  const Pass pass = {sequence_, session_->BeginPass(session_->pass_nodes()), &session_->chooser(),
                     &session_->history()};
  PassResult result;
  target_.Run({&pass, 1}, {&result, 1});
  const MonotonicTime end = RealClock().Now();
  if (!result.status.ok()) {
    session_->DropPass();
    return result.status;
  }
  v1::ServerMessage message;
  v1::Verdict& verdict = *message.mutable_verdict();
  OUTRIDER_RETURN_IF_ERROR(target_.Commit(sequence_, session_->EndPass(result.outcome, verdict)));
  const auto length = static_cast<uint32_t>(session_->history().size());
  due_.Yielded(length - computed_);
  due_.RootKnown(session_->verdict_count(), session_->Promise(), end);
  computed_ = length;

  verdict.set_pass_us(Microseconds(end - begin));
  if (verdict.seen() > 0) verdict.set_since_seen_us(Microseconds(end - seen_at));
  Tell(std::move(message));
  return absl::OkStatus();
}

// --- answers ---

void LocalVerifier::ForgetUnread() {
  MutexLock lock(mu_);
  unread_ = 0;
}

void LocalVerifier::Tell(v1::ServerMessage&& message) {
  {
    MutexLock lock(mu_);
    ++unread_;
  }
  listener_->OnMessage(stream_, std::move(message));
}

void LocalVerifier::Fail(v1::Fault::Kind kind, const absl::Status& status) {
  v1::ServerMessage message;
  v1::Fault& fault = *message.mutable_fault();
  fault.set_kind(kind);
  fault.set_message(std::string(Message(status)));
  Tell(std::move(message));
  EndStream(status);
}

void LocalVerifier::EndStream(const absl::Status& status) {
  if (session_) OUTRIDER_CHECK_OK(target_.Close(sequence_));
  session_.reset();
  if (listener_ != nullptr) std::exchange(listener_, nullptr)->OnDown(stream_, status);
}

}  // namespace outrider
