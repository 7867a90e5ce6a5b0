#include "common/verification/verifier_driver.h"

#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/thread_turn.h"

namespace outrider {

VerifierDriver::VerifierDriver(VerifierMachine& machine, Target& target,
                               DraftRunner::NewDrafter new_drafter, Log log, const Clock& run_clock)
    : machine_(machine),
      runner_(target, run_clock,
              [this](uint64_t session, const ExitGuess& guess) {
                Tell({.what = Told::What::kGuessed,
                      .guessed = {session, guess.exit, guess.outcome, guess.probability,
                                  guess.evidence.largest_softmax}});
              }),
      log_(std::move(log)) {
  if (new_drafter) {
    draft_.emplace(std::move(new_drafter), target.info().context_length,
                   [this](uint64_t session, std::span<const TokenId> chain, Duration time) {
                     Tell({.what = Told::What::kDrafted,
                           .session = session,
                           .chain = {chain.begin(), chain.end()},
                           .draft_time = time});
                   });
  }
  target_thread_ = std::thread([this] { RunTarget(); });
  machine_thread_ = std::thread([this] { RunMachine(); });
}

VerifierDriver::~VerifierDriver() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    told_something_.NotifyAll();
    asked_target_.NotifyAll();
  }
  machine_thread_.join();
  target_thread_.join();
  draft_.reset();
}

// --- what others tell ---

// When its last stream has ended, this may be gone as soon as nobody holds the mutex.
void VerifierDriver::Tell(Told told) {
  const bool goes_first = told.what == Told::What::kGuessed ||
                          told.what == Told::What::kTargetDone ||  //
                          told.what == Told::What::kWritten;
  const bool may_be_last = told.what == Told::What::kEnded;
  {
    MutexLock lock(mu_);
    (goes_first ? told_first_ : told_).push_back(std::move(told));
    if (may_be_last) return told_something_.NotifyAll();
  }
  told_something_.NotifyAll();
}

VerifierDriver::StreamNumber VerifierDriver::NextNumber() {
  MutexLock lock(mu_);
  return ++stream_number_;
}

void VerifierDriver::Open(StreamNumber number, std::unique_ptr<Stream> stream, std::string key,
                          const CallerTerms& terms, std::string origin) {
  Tell({.what = Told::What::kOpened,
        .stream = number,
        .opened = std::move(stream),
        .key = std::move(key),
        .terms = terms,
        .origin = std::move(origin)});
}

void VerifierDriver::Revoke(std::string key) {
  Tell({.what = Told::What::kRevoked, .key = std::move(key)});
}

void VerifierDriver::Received(StreamNumber stream, const v1::ClientMessage& message) {
  bytes_up_.fetch_add(message.ByteSizeLong(), std::memory_order_relaxed);
  VerifierMachine::Work work;
  {
    MutexLock lock(mu_);
    work = work_.at(stream);
  }
  Tell({.what = Told::What::kReceived,
        .stream = stream,
        .message = &message,
        .prepared = machine_.Prepare(message, work)});
}

void VerifierDriver::Written(StreamNumber stream) {
  Tell({.what = Told::What::kWritten, .stream = stream});
}

void VerifierDriver::Broken(StreamNumber stream) {
  Tell({.what = Told::What::kBroken, .stream = stream});
}

void VerifierDriver::Ended(StreamNumber stream) {
  Tell({.what = Told::What::kEnded, .stream = stream});
}

std::optional<VerifierDriver::Stats> VerifierDriver::AskStats(MonotonicTime deadline) {
  const auto asked = std::make_shared<std::promise<VerifierStats>>();
  std::future<VerifierStats> answer = asked->get_future();
  Tell({.what = Told::What::kAsked, .stats = asked});
  if (answer.wait_until(deadline) != std::future_status::ready) return std::nullopt;
  return Stats{.machine = answer.get(),
               .bytes_up = bytes_up_.load(std::memory_order_relaxed),
               .bytes_down = bytes_down_.load(std::memory_order_relaxed)};
}

void VerifierDriver::Drain(Duration grace) {
  Tell({.what = Told::What::kDrain, .grace = grace});
}

bool VerifierDriver::WaitUntilDrained(MonotonicTime deadline) {
  MutexLock lock(mu_);
  while (!drained_ && drained_changed_.WaitUntil(mu_, deadline)) {
  }
  return drained_;
}

// --- the machine's thread ---

void VerifierDriver::RunMachine() {
  BePrompt();
  for (;;) {
    std::optional<Told> told = NextTold();
    if (told) {
      Handle(*told);
      continue;
    }
    {
      MutexLock lock(mu_);
      if (stopping_) return;
    }
    timer_.reset();
    HandOver(VerifierMachine::TimerFired{});
  }
}

std::optional<VerifierDriver::Told> VerifierDriver::NextTold() {
  MutexLock lock(mu_);
  // Before what has been told: where there is always more of that, deadlines come all the same.
  if (timer_ && RealClock().Now() >= *timer_) return std::nullopt;
  while (told_first_.empty() && told_.empty() && !stopping_) {
    if (!timer_) {
      told_something_.Wait(mu_);
    } else if (!told_something_.WaitUntil(mu_, *timer_)) {
      return std::nullopt;
    }
  }
  std::deque<Told>& first = told_first_.empty() ? told_ : told_first_;
  if (first.empty()) return std::nullopt;
  Told told = std::move(first.front());
  first.pop_front();
  return told;
}

void VerifierDriver::Handle(Told& told) {
  switch (told.what) {
    case Told::What::kOpened:
      connections_[told.stream].stream = std::move(told.opened);
      return HandOver(VerifierMachine::StreamOpened{
          .stream = told.stream, .key = told.key, .terms = told.terms, .origin = told.origin});
    case Told::What::kReceived:
      return HandOver(VerifierMachine::Received{told.stream, *told.message, &told.prepared});
    case Told::What::kWritten:
      connections_.at(told.stream).writing = false;
      return HandOver(VerifierMachine::Written{told.stream});
    case Told::What::kBroken:
      return End(connections_.at(told.stream), absl::OkStatus());
    case Told::What::kEnded:
      connections_.erase(told.stream);  // before somebody hears that none is left
      ForgetWork(told.stream);
      return HandOver(VerifierMachine::StreamClosed{told.stream});
    case Told::What::kGuessed:
      return HandOver(told.guessed);
    case Told::What::kTargetDone:
      return HandOver(VerifierMachine::TargetDone{});
    case Told::What::kDrafted:
      return HandOver(VerifierMachine::Drafted{told.session, told.chain, told.draft_time});
    case Told::What::kRevoked:
      return HandOver(VerifierMachine::KeyRevoked{told.key});
    case Told::What::kAsked:
      return told.stats->set_value(machine_.stats());
    case Told::What::kDrain:
      return HandOver(VerifierMachine::Drain{RealClock().Now() + told.grace});
  }
}

void VerifierDriver::HandOver(const VerifierMachine::Event& event) {
  actions_.clear();
  machine_.Handle(event, RealClock().Now(), actions_);
  // The target does not wait until all that its last run has said is written.
  for (const VerifierMachine::Action& action : actions_) {
    if (const auto* const run = std::get_if<VerifierMachine::RunTarget>(&action)) Ask(*run->run);
  }
  for (VerifierMachine::Action& action : actions_) Do(action);
}

void VerifierDriver::Ask(TargetRun& run) {
  {
    MutexLock lock(mu_);
    run_ = &run;
  }
  asked_target_.NotifyAll();
}

void VerifierDriver::Do(VerifierMachine::Action& action) {
  if (const auto* const read = std::get_if<VerifierMachine::Read>(&action)) {
    Connection& connection = connections_.at(read->stream);
    if (connection.ended) return;
    SetWork(*read);
    connection.stream->Read();
  } else if (const auto* const send = std::get_if<VerifierMachine::Send>(&action)) {
    Connection& connection = connections_.at(send->stream);
    if (connection.ended) return;
    connection.writing = true;
    bytes_down_.fetch_add(send->message->ByteSizeLong(), std::memory_order_relaxed);
    connection.stream->Send(*send->message);
  } else if (const auto* const end = std::get_if<VerifierMachine::EndStream>(&action)) {
    End(connections_.at(end->stream), end->status);
  } else if (auto* const draft = std::get_if<VerifierMachine::Draft>(&action)) {
    draft_->Do(std::move(draft->job));
  } else if (const auto* const forget = std::get_if<VerifierMachine::ForgetDraft>(&action)) {
    draft_->Forget(forget->session);
  } else if (const auto* const timer = std::get_if<VerifierMachine::SetTimer>(&action)) {
    timer_ = timer->at;
  } else if (const auto* const fault = std::get_if<VerifierMachine::FaultFound>(&action)) {
    if (log_.fault) log_.fault(*fault);
  } else if (const auto* const refused = std::get_if<VerifierMachine::StreamRefused>(&action)) {
    if (log_.refused) log_.refused(*refused);
  } else if (const auto* const over = std::get_if<VerifierMachine::SessionOver>(&action)) {
    if (log_.session) log_.session(*over);
  } else if (std::holds_alternative<VerifierMachine::Drained>(action)) {
    MutexLock lock(mu_);
    drained_ = true;
    drained_changed_.NotifyAll();
  }
}

void VerifierDriver::SetWork(const VerifierMachine::Read& read) {
  MutexLock lock(mu_);
  work_[read.stream] = read.work;
}

void VerifierDriver::ForgetWork(StreamNumber stream) {
  MutexLock lock(mu_);
  work_.erase(stream);
}

void VerifierDriver::End(Connection& connection, const absl::Status& status) {
  if (std::exchange(connection.ended, true)) return;
  connection.stream->End(status, /*at_once=*/connection.writing);
}

// --- the target's thread ---

void VerifierDriver::RunTarget() {
  BePrompt();
  for (;;) {
    TargetRun* run = nullptr;
    {
      MutexLock lock(mu_);
      while (run_ == nullptr && !stopping_) asked_target_.Wait(mu_);
      if (stopping_) return;
      run = std::exchange(run_, nullptr);
    }
    runner_.Execute(*run);
    Tell({.what = Told::What::kTargetDone});
  }
}

}  // namespace outrider
