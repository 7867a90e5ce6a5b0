#include "client/driver/draft_worker.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/thread_turn.h"

namespace outrider {

DraftWorker::DraftWorker(Drafter& drafter, const TokenHistory::Options& history, bool is_patient,
                         Done done)
    : drafter_(drafter),
      done_(std::move(done)),
      is_patient_(is_patient),
      token_count_max_(history.capacity),
      history_(history),
      thread_([this] { Run(); }) {}

DraftWorker::~DraftWorker() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    if (running_) waiting_.front()->cancellation.Cancel();
  }
  changed_.NotifyAll();
  thread_.join();
}

void DraftWorker::Begin(const Session::Draft& draft) {
  {
    MutexLock lock(mu_);
    if (unused_.empty()) unused_.push_back(NewBatch());
    Batch& batch = *unused_.front();
    batch.number = draft.batch;
    batch.committed.assign(draft.committed.begin(), draft.committed.end());
    batch.reply_begin = draft.reply_begin;
    batch.nodes.assign(draft.nodes.begin(), draft.nodes.end());
    batch.contexts.assign(draft.contexts.begin(), draft.contexts.end());
    batch.cancellation.Renew();
    MoveTo(waiting_, unused_, unused_.begin());
  }
  changed_.NotifyAll();
}

// With room for the longest text: else it would be taken anew for each that is longer than before.
std::unique_ptr<DraftWorker::Batch> DraftWorker::NewBatch() const {
  auto batch = std::make_unique<Batch>();
  batch->committed.reserve(token_count_max_);
  return batch;
}

void DraftWorker::Cancel(uint64_t number) {
  MutexLock lock(mu_);
  const auto batch = Find(waiting_, number);
  if (batch == waiting_.end()) return;
  if (running_ && batch == waiting_.begin()) {
    (*batch)->cancellation.Cancel();
  } else {
    MoveTo(unused_, waiting_, batch);
  }
}

void DraftWorker::Release(uint64_t number) {
  MutexLock lock(mu_);
  const auto batch = Find(answered_, number);
  OUTRIDER_CHECK(batch != answered_.end(), "what is released was answered, and once");
  MoveTo(unused_, answered_, batch);
}

DraftWorker::Batches::iterator DraftWorker::Find(Batches& batches, uint64_t number) {
  return std::ranges::find_if(batches, [&](const auto& batch) { return batch->number == number; });
}

void DraftWorker::MoveTo(Batches& to, Batches& from, Batches::iterator batch) {
  to.push_back(std::move(*batch));
  from.erase(batch);
}

// --- the worker's thread ---

void DraftWorker::Run() {
  if (is_patient_) BePatient();
  for (;;) {
    Batch* batch = nullptr;
    {
      MutexLock lock(mu_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mu_);
      if (stopping_) return;
      batch = waiting_.front().get();
      running_ = true;
    }
    Follow(*batch);
    const absl::Status status = drafter_.Propose(history_, batch->nodes, batch->contexts,
                                                 batch->proposals, batch->cancellation);
    {
      MutexLock lock(mu_);
      running_ = false;
      MoveTo(answered_, waiting_, waiting_.begin());
    }
    done_(batch->number, batch->proposals.children(), status);
  }
}

// Makes the history that of the session.
void DraftWorker::Follow(const Batch& batch) {
  const std::span<const TokenId> committed = batch.committed;
  const size_t reply_begin = batch.reply_begin;
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

}  // namespace outrider
