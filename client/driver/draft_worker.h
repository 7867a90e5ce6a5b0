// A drafter on a thread of its own, which runs one batch after the other.
//
//   worker.Begin(draft);      waits its turn, and is answered:   done(draft.batch, children, status)
//   worker.Cancel(batch);     a batch that waits is dropped; the one under way ends as soon as the
//                             drafter looks, and may be answered or not
//
// Threads: Begin(), Cancel(), Release() and the destructor from one thread. A batch is that thread's
//          before Begin() and after `done`, and the worker's in between; so is the drafter.
// Queues:  as many batches as are begun and not answered: a session says how many.
// Memory:  a batch has room for as many tokens as the history, and keeps it for another.
// Copies:  the committed tokens, all of them for every batch, which takes 0.3 us of 4096. To know what
//          of them is new would take as long, and a batch that had no more than that would need those
//          before it, which may have been dropped.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/session/session.h"
#include "common/base/mutex.h"
#include "common/speculation/drafting/cancellation.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/token_history.h"

namespace outrider {

class DraftWorker {
 public:
  // Called on the worker's thread. The children are valid until Release().
  using Done =
      std::function<void(uint64_t batch, std::span<const std::span<const Proposal>> children,
                         const absl::Status& status)>;

  // `drafter` must outlive it; `history` says what its TokenHistory has to hold. Who reads and writes
  // messages on a full core goes before a worker that is patient (thread_turn.h).
  DraftWorker(Drafter& drafter, const TokenHistory::Options& history, bool is_patient, Done done);
  ~DraftWorker();  // waits for the batch under way
  DraftWorker(const DraftWorker&) = delete;
  DraftWorker& operator=(const DraftWorker&) = delete;

  void Begin(const Session::Draft& draft);
  // One that is answered, or was never begun, is passed over.
  void Cancel(uint64_t batch);
  // The answer has been read.
  void Release(uint64_t batch);

 private:
  struct Batch {
    uint64_t number = 0;
    std::vector<TokenId> committed;
    size_t reply_begin = 0;
    std::vector<DraftedNode> nodes;
    std::vector<Drafter::Context> contexts;
    Proposals proposals;
    Cancellation cancellation;
  };
  using Batches = std::deque<std::unique_ptr<Batch>>;

  std::unique_ptr<Batch> NewBatch() const;
  void Run();
  void Follow(const Batch& batch);
  static void MoveTo(Batches& to, Batches& from, Batches::iterator batch);
  static Batches::iterator Find(Batches& batches, uint64_t number);

  Drafter& drafter_;
  const Done done_;
  const bool is_patient_;
  const size_t token_count_max_;
  TokenHistory history_;  // the worker's thread only

  Mutex mu_;
  CondVar changed_;
  Batches waiting_ ABSL_GUARDED_BY(mu_);   // the first of them is under way if `running_`
  Batches answered_ ABSL_GUARDED_BY(mu_);  // and not released
  Batches unused_ ABSL_GUARDED_BY(mu_);
  bool running_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
