#include "client/driver/draft_worker.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

DraftWorker::DraftWorker(Drafter& drafter, const TokenHistory::Options& history, Done done)
    : drafter_(drafter), done_(std::move(done)), history_(history), thread_([this] { Run(); }) {}

DraftWorker::~DraftWorker() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void DraftWorker::Begin(const Session::Draft& draft) {
  {
    MutexLock lock(mu_);
    OUTRIDER_CHECK(batch_ == 0, "one batch at a time");
    Follow(draft.committed, draft.reply_begin);
    nodes_.assign(draft.nodes.begin(), draft.nodes.end());
    contexts_.assign(draft.contexts.begin(), draft.contexts.end());
    batch_ = draft.batch;
  }
  changed_.NotifyAll();
}

// Makes the history that of the session.
void DraftWorker::Follow(std::span<const TokenId> committed, size_t reply_begin) {
  const auto known = history_.tokens();
  auto shared = static_cast<size_t>(std::ranges::mismatch(known, committed).in1 - known.begin());
  if (history_.reply_begin() != reply_begin) {
    shared = std::min({shared, reply_begin, history_.reply_begin()});
  }
  OUTRIDER_CHECK_OK(history_.Truncate(shared));
  if (shared <= reply_begin) {
    OUTRIDER_CHECK_OK(history_.Append(committed.subspan(shared, reply_begin - shared)));
    history_.StartReply();
    shared = reply_begin;
  }
  OUTRIDER_CHECK_OK(history_.Append(committed.subspan(shared)));
}

void DraftWorker::Run() {
  for (;;) {
    uint64_t batch = 0;
    {
      MutexLock lock(mu_);
      while (batch_ == 0 && !stopping_) changed_.Wait(mu_);
      if (stopping_) return;
      batch = batch_;
    }
    const absl::Status status = drafter_.Propose(history_, nodes_, contexts_, proposals_);
    {
      MutexLock lock(mu_);
      batch_ = 0;
    }
    done_(batch, proposals_.children(), status);
  }
}

}  // namespace outrider
