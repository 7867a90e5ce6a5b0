#include "client/driver/session_driver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/clock.h"
#include "common/tokens/growth_bits.h"

namespace outrider {
namespace {

// How often Interrupted() is asked, when nothing else happens.
constexpr Duration kLookAround = std::chrono::milliseconds(50);

// Whether the target waits while something is drafted: one processor does both.
bool StandsStill(const Verifier& verifier) {
  return verifier.Forecast({}).shares_processor;
}

}  // namespace

SessionDriver::SessionDriver(Session& session, Drafter& drafter,
                             const TokenHistory::Options& history, Verifier& verifier,
                             SessionTrace* trace)
    : session_(session),
      verifier_(verifier),
      trace_(trace),
      worker_(drafter, history, /*is_patient=*/!StandsStill(verifier),
              [this](uint64_t batch, std::span<const std::span<const Proposal>> children,
                     const absl::Status& status) {
                Post(Session::Drafted{batch, children, status});
              }) {}

// The verifier still knows this as its listener.
SessionDriver::~SessionDriver() {
  if (!end_) Handle(Session::UserClose{});
  if (!end_) Handle(Session::UserClose{});  // and does not wait for an answer
  MutexLock lock(mu_);
  while (streams_open_ > 0) mailed_.Wait(mu_);
}

absl::Status SessionDriver::Run(const Session::Event& event, Observer& observer) {
  if (end_) return *end_;
  told_.Begin(observer);
  is_observed_ = true;
  finish_ = v1::FINISH_NONE;
  Handle(event);
  while (session_.replying() && !end_) {
    Pump(RealClock().Now() + kLookAround);
    if (session_.replying() && observer.Interrupted()) {
      Handle(Session::UserTruncate{static_cast<uint32_t>(session_.committed().size())});
    }
  }
  is_observed_ = false;
  told_.Finish();
  return end_.value_or(absl::OkStatus());
}

void SessionDriver::Close() {
  if (end_) return;
  Handle(Session::UserClose{});
  while (!end_) Pump(RealClock().Now() + kLookAround);
}

// --- other threads ---

void SessionDriver::OnMessage(uint64_t stream, v1::ServerMessage&& message) {
  Post(Message{stream, std::move(message), RealClock().Now()});
}

void SessionDriver::OnWritten(uint64_t stream) {
  Post(Session::Written{stream});
}

// It may be gone as soon as nobody holds the mutex: nothing of it is touched after that.
void SessionDriver::OnDown(uint64_t stream, const absl::Status& status) {
  MutexLock lock(mu_);
  mail_.push_back(Session::StreamDown{stream, status});
  --streams_open_;
  mailed_.NotifyAll();
}

// Who hears is woken when it can have the mutex (thread_turn.h).
void SessionDriver::Post(Mail mail) {
  {
    MutexLock lock(mu_);
    mail_.push_back(std::move(mail));
  }
  mailed_.NotifyAll();
}

// --- the caller's thread ---

std::optional<SessionDriver::Mail> SessionDriver::AwaitMail(MonotonicTime until) {
  MutexLock lock(mu_);
  while (mail_.empty() && mailed_.WaitUntil(mu_, until)) {
  }
  if (mail_.empty()) return std::nullopt;
  Mail mail = std::move(mail_.front());
  mail_.pop_front();
  more_follow_ = !mail_.empty();
  return mail;
}

// Handles what comes next, or what the timer says, or waits until `until`. Growth answers a verdict
// when it goes in the verdict's own event, or in that of messages that waited behind it, or, where a
// message was being written then, when that is done: what other events bring was not there before the
// verdict.
void SessionDriver::Pump(MonotonicTime until) {
  const bool waited = std::exchange(more_follow_, false);
  std::optional<Mail> mail = AwaitMail(timer_ ? std::min(until, *timer_) : until);
  if (!mail) {
    if (!timer_ || RealClock().Now() < *timer_) return;
    timer_.reset();
    verdict_arrived_.reset();
    return Handle(Session::TimerFired{});
  }
  const bool is_answer = std::holds_alternative<Session::Written>(*mail) ||
                         (waited && std::holds_alternative<Message>(*mail));
  if (!is_answer) verdict_arrived_.reset();
  if (auto* const message = std::get_if<Message>(&*mail)) return Receive(*message);
  if (auto* const written = std::get_if<Session::Written>(&*mail)) return Handle(*written);
  if (auto* const down = std::get_if<Session::StreamDown>(&*mail)) return Handle(*down);
  if (auto* const drafted = std::get_if<Session::Drafted>(&*mail)) {
    Handle(*drafted);
    return worker_.Release(drafted->batch);
  }
}

void SessionDriver::Receive(const Message& message) {
  const size_t committed = session_.committed().size();
  if (message.message.has_verdict()) verdict_arrived_ = message.arrived;
  Handle(Session::Received{message.stream, message.message});
  if (trace_ != nullptr) {
    trace_->Received(message.message, session_.committed().size() - committed, message.arrived,
                     RealClock().Now());
  }
  verifier_.Read(message.stream);
}

void SessionDriver::Handle(const Session::Event& event) {
  actions_.clear();
  session_.Handle(event, RealClock().Now(), actions_, more_follow_);
  // What starts the drafter comes last: on a core that both are on it may run at once, and growth would
  // wait for it.
  for (const bool starts_drafter : {false, true}) {
    for (const Session::Action& action : actions_) {
      if (std::holds_alternative<Session::Draft>(action) != starts_drafter) continue;
      std::visit([this](const auto& which) { Do(which); }, action);
    }
  }
  if (std::exchange(has_told_, false)) told_.Wake();
}

void SessionDriver::Do(const Session::OpenStream& action) {
  {
    MutexLock lock(mu_);
    ++streams_open_;
  }
  verifier_.Open(action.stream, *this);
}

void SessionDriver::Do(const Session::Send& action) {
  v1::ClientMessage& message = *action.message;
  const size_t node_count = GrowthReader(message.grow().nodes()).node_count();
  const bool is_answer = verdict_arrived_ && node_count > 0;
  if (trace_ != nullptr) trace_->Sent(message, RealClock().Now());
  verifier_.Send(action.stream, message);
  if (!is_answer) return;
  const MonotonicTime sent = RealClock().Now();
  answer_times_.Add(sent - *verdict_arrived_);
  if (trace_ != nullptr) trace_->Answered(node_count, *verdict_arrived_, sent);
  verdict_arrived_.reset();
}

void SessionDriver::Do(const Session::CloseStream& action) {
  verifier_.Close(action.stream);
}

void SessionDriver::Do(const Session::Draft& action) {
  worker_.Begin(action);
}

void SessionDriver::Do(const Session::CancelDraft& action) {
  worker_.Cancel(action.batch);
}

void SessionDriver::Do(const Session::Commit& action) {
  if (action.finish != v1::FINISH_NONE) finish_ = action.finish;
  if (!is_observed_ || (action.tokens.empty() && action.text.empty())) return;
  told_.Commit(action.tokens, action.text);
  has_told_ = true;
}

void SessionDriver::Do(const Session::Progress& action) {
  if (!is_observed_) return;
  told_.Progress(action.processed, action.total);
  has_told_ = true;
}

void SessionDriver::Do(const Session::SetTimer& action) {
  timer_ = action.at;
}

void SessionDriver::Do(const Session::Report& action) {
  if (!is_observed_) return;
  told_.Report(action.status);
  has_told_ = true;
}

void SessionDriver::Do(const Session::End& action) {
  end_ = action.status;
}

}  // namespace outrider
