#include "client/verifier/fallback_verifier.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// What a move takes of the target here: reading what it lacks of the text, and the pass after that.
constexpr double kMovePasses = 2;
// Of an answer to a question that needs no target: of a server that is silent, and of one that was
// lost, which may have to be connected to.
constexpr Duration kAliveMax = std::chrono::seconds(1);
constexpr Duration kAnswerMax = std::chrono::seconds(3);
// Of a verdict at the device, which is paid for, when the server is back.
constexpr Duration kVerdictMax = std::chrono::seconds(2);
// When nothing is due.
constexpr Duration kLookAround = std::chrono::hours(1);

Duration FromMilliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

// Of a session that no server has: the answer is that there is none such.
v1::Resume OfNobody() {
  v1::Resume resume;
  resume.set_session("-");
  resume.set_token("-");
  resume.set_length(UINT32_MAX);
  return resume;
}

// What a server cannot do now, and another target may.
bool IsOfTheServer(const v1::Fault& fault) {
  switch (fault.kind()) {
    case v1::Fault::OVERLOADED:
    case v1::Fault::DRAINING:
    case v1::Fault::STALLED:
    case v1::Fault::TARGET:
      return true;
    default:
      return false;
  }
}

// A fault after which a session asks for another stream at once.
void MakePassing(v1::Fault& fault) {
  fault.set_kind(v1::Fault::STALLED);
  fault.clear_retry_ms();
}

}  // namespace

// Hears of the streams at one place.
class FallbackVerifier::Relay final : public Verifier::Listener {
 public:
  Relay(FallbackVerifier& verifier, Place place) : verifier_(verifier), place_(place) {}

  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
    verifier_.Heard(place_, stream, std::move(message));
  }
  void OnWritten(uint64_t stream) override {
    Listener* listener = nullptr;
    {
      MutexLock lock(verifier_.mu_);
      listener = verifier_.lines_.at(stream).listener;
    }
    listener->OnWritten(stream);
  }
  void OnDown(uint64_t stream, const absl::Status& status) override {
    verifier_.Down(place_, stream, status);
  }

 private:
  FallbackVerifier& verifier_;
  const Place place_;
};

// A stream of our own to the server, and what has come of it. Its fields are guarded by the
// verifier's mutex.
class FallbackVerifier::Question final : public Verifier::Listener {
 public:
  explicit Question(FallbackVerifier& verifier) : verifier_(verifier) {}

  void OnMessage(uint64_t, v1::ServerMessage&& message) override {
    MutexLock lock(verifier_.mu_);
    if (message.has_resumed()) is_attached = true;
    if (message.has_fault()) is_refused = message.fault().kind() != v1::Fault::UNKNOWN_SESSION;
    is_answered = true;
    verifier_.changed_.NotifyAll();
  }
  void OnWritten(uint64_t) override {
    MutexLock lock(verifier_.mu_);
    is_written = true;
    verifier_.changed_.NotifyAll();
  }
  void OnDown(uint64_t, const absl::Status&) override {
    MutexLock lock(verifier_.mu_);
    is_down = true;
    verifier_.changed_.NotifyAll();
  }

  bool is_written = false;
  bool is_answered = false;
  bool is_attached = false;
  bool is_refused = false;  // by what would refuse a session, too
  bool is_down = false;

 private:
  FallbackVerifier& verifier_;
};

FallbackVerifier::FallbackVerifier(std::unique_ptr<Verifier> server,
                                   std::unique_ptr<Verifier> device, Options options)
    : options_(options),
      place_(options_.begins_at_device ? Place::kDevice : Place::kServer),
      patience_(FromMilliseconds(0)),
      device_pass_ms_(std::chrono::duration<double, std::milli>(options_.device_pass).count()),
      left_(OfNobody()),
      relays_({std::make_unique<Relay>(*this, Place::kServer),
               std::make_unique<Relay>(*this, Place::kDevice)}),
      verifiers_({std::move(server), std::move(device)}) {
  {
    MutexLock lock(mu_);
    patience_.SetMove(FromMilliseconds(kMovePasses * device_pass_ms_));
    if (options_.begins_at_device) patience_.Left(RealClock().Now());
  }
  watch_ = std::thread([this] { Watch(); });
}

FallbackVerifier::~FallbackVerifier() {
  {
    MutexLock lock(mu_);
    OUTRIDER_CHECK(lines_.empty(), "who has opened a stream waits until it is down");
    stopping_ = true;
    changed_.NotifyAll();
  }
  watch_.join();
}

// --- the session's thread ---

void FallbackVerifier::Open(uint64_t stream, Listener& listener) {
  Place place = Place::kServer;
  bool moves = false;
  {
    MutexLock lock(mu_);
    place = place_;
    lines_.emplace(stream, Line{.listener = &listener, .place = place});
    replying_ = true;
    if (place == Place::kServer) patience_.Asked(RealClock().Now());
    moves = std::exchange(session_place_, place) != place;
    changed_.NotifyAll();
  }
  if (moves && moved_) moved_(place);
  At(place).Open(stream, *relays_[static_cast<size_t>(place)]);
  MutexLock lock(mu_);
  const auto line = lines_.find(stream);
  if (line != lines_.end()) line->second.is_open = true;
  changed_.NotifyAll();
}

void FallbackVerifier::Send(uint64_t stream, v1::ClientMessage& message) {
  {
    MutexLock lock(mu_);
    const auto line = lines_.find(stream);
    if (line == lines_.end()) return;
    if (message.has_append() && !message.append().reply()) {
      replying_ = true;
      if (line->second.place == Place::kServer) patience_.Asked(RealClock().Now());
      changed_.NotifyAll();
    }
    if (message.has_truncate() || message.has_close()) Rest();
  }
  At(PlaceOf(stream)).Send(stream, message);
}

void FallbackVerifier::Read(uint64_t stream) {
  At(PlaceOf(stream)).Read(stream);
}

void FallbackVerifier::Close(uint64_t stream) {
  {
    MutexLock lock(mu_);
    const auto line = lines_.find(stream);
    if (line == lines_.end() || std::exchange(line->second.is_closed, true)) return;
    if (line->second.place == Place::kServer) Lost(line->second);
  }
  At(PlaceOf(stream)).Close(stream);
}

RunForecast FallbackVerifier::Forecast(const RunShape& shape) const {
  Place place = Place::kServer;
  {
    MutexLock lock(mu_);
    place = place_;
  }
  return verifier_at(place).Forecast(shape);
}

void FallbackVerifier::Prefer(Place place) {
  MutexLock lock(mu_);
  if (!MayUseDevice() || std::exchange(preferred_, place) == place) return;
  if (place == Place::kDevice && place_ == Place::kServer) MoveTo(place);
  changed_.NotifyAll();
}

absl::Status FallbackVerifier::device_failure() const {
  MutexLock lock(mu_);
  return device_failure_;
}

// Of a stream that is down: anywhere, where nobody knows it either.
FallbackVerifier::Place FallbackVerifier::PlaceOf(uint64_t stream) {
  MutexLock lock(mu_);
  const auto line = lines_.find(stream);
  return line == lines_.end() ? Place::kServer : line->second.place;
}

// --- the verifiers' threads ---

void FallbackVerifier::Heard(Place place, uint64_t stream, v1::ServerMessage&& message) {
  Listener* listener = nullptr;
  {
    MutexLock lock(mu_);
    Line& line = lines_.at(stream);
    listener = line.listener;
    line.is_heard = true;
    if (place == Place::kServer) {
      HeardServer(message);
    } else {
      HeardDevice(line, message);
    }
  }
  changed_.NotifyAll();
  listener->OnMessage(stream, std::move(message));
}

void FallbackVerifier::HeardServer(v1::ServerMessage& message) {
  patience_.Heard(RealClock().Now());
  if (message.has_opened()) {
    left_.set_session(message.opened().session());
    left_.set_token(message.opened().token());
    Finished(message.opened().finish());
  }
  if (message.has_resumed()) {
    left_.set_token(message.resumed().token());
    Finished(message.resumed().finish());
  }
  if (message.has_verdict()) {
    Finished(message.verdict().finish());
    device_failures_ = 0;
  }
  if (message.has_fault() && IsOfTheServer(message.fault()) && MayUseDevice()) {
    MakePassing(*message.mutable_fault());
    MoveTo(Place::kDevice);
  }
}

void FallbackVerifier::HeardDevice(Line& line, v1::ServerMessage& message) {
  if (message.has_opened()) Finished(message.opened().finish());
  if (message.has_resumed()) Finished(message.resumed().finish());
  if (message.has_verdict()) {
    Finished(message.verdict().finish());
    device_failure_ = absl::OkStatus();
    device_failures_ = 0;
    if (message.verdict().pass_us() > 0) {
      device_pass_ms_ = message.verdict().pass_us() / 1e3;
      patience_.SetMove(FromMilliseconds(kMovePasses * device_pass_ms_));
    }
    line.is_leaving = line.leaves_after_verdict;
  }
  if (message.has_fault() && message.fault().kind() == v1::Fault::TARGET) {
    device_failure_ = absl::InternalError(message.fault().message());
    ++device_failures_;
    MakePassing(*message.mutable_fault());
    MoveTo(Place::kServer);
  }
}

void FallbackVerifier::Finished(v1::Finish finish) {
  if (finish != v1::FINISH_NONE) Rest();
}

// Of attempts after that, which come to nothing, patience is not begun anew.
void FallbackVerifier::Lost(const Line& line) {
  if (line.is_heard) patience_.Lost(RealClock().Now());
}

// Nobody owes a verdict.
void FallbackVerifier::Rest() {
  replying_ = false;
  patience_.Settled();
}

// It may be gone when the listener has been told.
void FallbackVerifier::Down(Place place, uint64_t stream, absl::Status status) {
  Listener* listener = nullptr;
  {
    MutexLock lock(mu_);
    const auto at = lines_.find(stream);
    const Line line = at->second;
    lines_.erase(at);
    listener = line.listener;
    const bool is_of_server = place == Place::kServer && !line.is_closed;
    if (is_of_server) Lost(line);
    // Whatever has ended it, there is another way.
    if (line.is_leaving || (is_of_server && MayUseDevice())) {
      status = absl::UnavailableError(Concat(Message(status)));
    }
    changed_.NotifyAll();
  }
  listener->OnDown(stream, status);
}

// --- moving ---

void FallbackVerifier::MoveTo(Place place) {
  const MonotonicTime now = RealClock().Now();
  place_ = place;
  for (auto& [stream, line] : lines_) {
    if (line.place == place) {
      line.leaves_after_verdict = false;
      continue;
    }
    // A verdict that is under way at the device has been paid for.
    line.leaves_after_verdict = true;
    line.is_leaving = line.is_leaving || line.place == Place::kServer;
  }
  if (place == Place::kServer) {
    return_by_ = now + kVerdictMax;
    patience_.Returned(now);
  } else {
    patience_.Left(now);
  }
  changed_.NotifyAll();
}

bool FallbackVerifier::IsServerUp() const {
  return std::ranges::any_of(lines_, [](const auto& entry) {
    return entry.second.place == Place::kServer && !entry.second.is_closed;
  });
}

// --- the thread that watches ---

void FallbackVerifier::Watch() {
  for (;;) {
    const Duties duties = AwaitDuties();
    for (const auto& [place, stream] : duties.to_close) At(place).Close(stream);
    if (duties.asks) Ask();
    if (duties.looks) Look();
    MutexLock lock(mu_);
    if (stopping_) return;
  }
}

FallbackVerifier::Duties FallbackVerifier::AwaitDuties() {
  MutexLock lock(mu_);
  for (;;) {
    const MonotonicTime now = RealClock().Now();
    Duties duties = DueNow(now);
    if (stopping_ || !duties.to_close.empty() || duties.asks || duties.looks) return duties;
    changed_.WaitUntil(mu_, NextDue(now));
  }
}

FallbackVerifier::Duties FallbackVerifier::DueNow(MonotonicTime now) {
  Duties duties;
  if (place_ == Place::kServer) {
    const std::optional<MonotonicTime> gives_up_at = patience_.gives_up_at();
    const bool is_over = gives_up_at && *gives_up_at <= now && MayUseDevice();
    if (is_over && IsServerUp()) {
      duties.asks = true;
    } else if (is_over) {
      MoveTo(Place::kDevice);
    }
  } else {
    duties.looks = replying_ && preferred_ == Place::kServer && patience_.looks_at() <= now;
  }
  for (auto& [stream, line] : lines_) {
    if (line.leaves_after_verdict && return_by_ <= now) line.is_leaving = true;
    if (!line.is_leaving || !line.is_open || std::exchange(line.is_closed, true)) continue;
    duties.to_close.emplace_back(line.place, stream);
  }
  return duties;
}

MonotonicTime FallbackVerifier::NextDue(MonotonicTime now) const {
  MonotonicTime next = now + kLookAround;
  if (place_ == Place::kDevice) {
    if (replying_ && preferred_ == Place::kServer) next = patience_.looks_at();
    return next;
  }
  if (const auto gives_up_at = patience_.gives_up_at(); gives_up_at && MayUseDevice()) {
    next = *gives_up_at;
  }
  const bool awaits_verdict = std::ranges::any_of(lines_, [](const auto& entry) {
    return entry.second.leaves_after_verdict && !entry.second.is_leaving;
  });
  return awaits_verdict ? std::min(next, return_by_) : next;
}

// A server that answers a question is there, however long its verdict takes.
void FallbackVerifier::Ask() {
  const bool is_there = Answers(OfNobody(), kAliveMax);
  MutexLock lock(mu_);
  if (place_ != Place::kServer) return;
  if (is_there) {
    patience_.Heard(RealClock().Now());
  } else {
    MoveTo(Place::kDevice);
  }
}

void FallbackVerifier::Look() {
  v1::Resume left;
  {
    MutexLock lock(mu_);
    left = left_;
  }
  left.set_length(UINT32_MAX);  // more than the server has, which then sends none of it
  left.set_attempt(UINT32_MAX);
  const bool is_back = Answers(left, kAnswerMax);
  MutexLock lock(mu_);
  if (place_ != Place::kDevice) return;
  if (!is_back) return patience_.LookedInVain(RealClock().Now());
  left_ = OfNobody();
  MoveTo(Place::kServer);
}

// Whether the server does, and would take a session. One that it has is told farewell.
bool FallbackVerifier::Answers(const v1::Resume& resume, Duration patience) {
  const MonotonicTime until = RealClock().Now() + patience;
  {
    MutexLock lock(mu_);
    std::erase_if(questions_, [](const auto& question) { return question->is_down; });
  }
  questions_.push_back(std::make_unique<Question>(*this));
  Question& question = *questions_.back();
  const uint64_t number = next_question_++;
  Verifier& server = At(Place::kServer);
  server.Open(number, question);
  v1::ClientMessage message;
  *message.mutable_resume() = resume;
  server.Send(number, message);
  const bool answers = AwaitAnswer(question, until);
  bool is_attached = false;
  {
    MutexLock lock(mu_);
    is_attached = question.is_attached;
  }
  if (is_attached) {
    message.mutable_close();
    server.Send(number, message);
    AwaitDown(number, question, until);
  }
  server.Close(number);
  return answers;
}

bool FallbackVerifier::AwaitAnswer(const Question& question, MonotonicTime until) {
  MutexLock lock(mu_);
  while (!stopping_ && !question.is_down && !(question.is_answered && question.is_written)) {
    if (!changed_.WaitUntil(mu_, until) && RealClock().Now() >= until) break;
  }
  return question.is_answered && !question.is_refused;
}

void FallbackVerifier::AwaitDown(uint64_t number, const Question& question, MonotonicTime until) {
  At(Place::kServer).Read(number);
  MutexLock lock(mu_);
  while (!stopping_ && !question.is_down) {
    if (!changed_.WaitUntil(mu_, until) && RealClock().Now() >= until) break;
  }
}

}  // namespace outrider
