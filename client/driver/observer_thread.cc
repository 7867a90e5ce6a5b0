#include "client/driver/observer_thread.h"

#include <utility>

#include "common/base/check.h"

namespace outrider {

void ObserverThread::Untold::TellTo(ReplyObserver& observer) const {
  if (progress) observer.OnPromptProgress(progress->processed, progress->total);
  for (const absl::Status& report : reports) observer.OnReport(report);
  if (!tokens.empty()) observer.OnTokens(tokens);
  if (!text.empty()) observer.OnText(text);
}

void ObserverThread::Untold::Clear() {
  progress.reset();
  reports.clear();
  tokens.clear();
  text.clear();
}

ObserverThread::ObserverThread() : thread_([this] { Run(); }) {}

ObserverThread::~ObserverThread() {
  {
    MutexLock lock(mu_);
    OUTRIDER_CHECK(observer_ == nullptr, "who has begun finishes");
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void ObserverThread::Begin(ReplyObserver& observer) {
  MutexLock lock(mu_);
  OUTRIDER_CHECK(observer_ == nullptr, "one reply at a time");
  observer_ = &observer;
}

void ObserverThread::Commit(std::span<const TokenId> tokens, std::string_view text) {
  MutexLock lock(mu_);
  untold_.tokens.insert(untold_.tokens.end(), tokens.begin(), tokens.end());
  untold_.text += text;
}

void ObserverThread::Progress(uint32_t processed, uint32_t total) {
  MutexLock lock(mu_);
  untold_.progress = {processed, total};
}

void ObserverThread::Report(const absl::Status& status) {
  MutexLock lock(mu_);
  if (untold_.reports.size() < kReportsMax) untold_.reports.push_back(status);
}

void ObserverThread::Wake() {
  changed_.NotifyAll();
}

void ObserverThread::Finish() {
  changed_.NotifyAll();
  MutexLock lock(mu_);
  while (telling_ || !untold_.empty()) changed_.Wait(mu_);
  observer_ = nullptr;
}

// --- its thread ---

void ObserverThread::Run() {
  Untold told;
  for (;;) {
    ReplyObserver* observer = nullptr;
    {
      MutexLock lock(mu_);
      telling_ = false;
      changed_.NotifyAll();
      while (untold_.empty() && !stopping_) changed_.Wait(mu_);
      if (untold_.empty()) return;
      std::swap(told, untold_);
      telling_ = true;
      observer = observer_;
    }
    told.TellTo(*observer);
    told.Clear();
  }
}

}  // namespace outrider
