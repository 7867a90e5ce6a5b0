#include "common/verification/draft_thread.h"

#include <utility>

#include "common/base/clock.h"

namespace outrider {

DraftThread::DraftThread(DraftRunner::NewDrafter new_drafter, uint32_t context_length,
                         OnDrafted drafted)
    : runner_(std::move(new_drafter), context_length),
      drafted_(std::move(drafted)),
      thread_([this] { Run(); }) {}

DraftThread::~DraftThread() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    moot_.Cancel();
    asked_something_.NotifyAll();
  }
  thread_.join();
}

void DraftThread::Do(DraftJob job) {
  {
    MutexLock lock(mu_);
    const uint64_t session = job.session;
    asked_.push_back({session, std::make_unique<DraftJob>(std::move(job))});
  }
  asked_something_.NotifyAll();
}

void DraftThread::Forget(uint64_t session) {
  {
    MutexLock lock(mu_);
    std::erase_if(asked_, [&](const Asked& asked) { return asked.session == session; });
    if (working_for_ == session) moot_.Cancel();
    asked_.push_back({session, nullptr});
  }
  asked_something_.NotifyAll();
}

std::optional<DraftThread::Asked> DraftThread::Next() {
  MutexLock lock(mu_);
  while (asked_.empty() && !stopping_) asked_something_.Wait(mu_);
  if (stopping_) return std::nullopt;
  Asked next = std::move(asked_.front());
  asked_.pop_front();
  working_for_ = next.session;
  moot_.Renew();
  return next;
}

void DraftThread::Run() {
  while (std::optional<Asked> asked = Next()) {
    if (!asked->job) {
      runner_.Forget(asked->session);
    } else {
      const MonotonicTime begun = RealClock().Now();
      const std::span<const TokenId> chain = runner_.Execute(std::move(*asked->job), moot_);
      drafted_(asked->session, chain, RealClock().Now() - begun);
    }
  }
}

}  // namespace outrider
