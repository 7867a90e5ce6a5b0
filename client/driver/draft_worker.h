// A drafter on a thread of its own, which runs one batch at a time.
//
// Threads: Begin() and the destructor from one thread. The drafter and what it is shown are that
//          thread's while the worker is idle, and the worker's from Begin() until `done` is called.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/session/session.h"
#include "common/base/mutex.h"
#include "common/speculation/drafter.h"
#include "common/tokens/token_history.h"

namespace outrider {

class DraftWorker {
 public:
  // Called on the worker's thread. The children are valid until the next Begin().
  using Done =
      std::function<void(uint64_t batch, std::span<const std::span<const Proposal>> children,
                         const absl::Status& status)>;

  // `drafter` must outlive it; `history` says what its TokenHistory has to hold.
  DraftWorker(Drafter& drafter, const TokenHistory::Options& history, Done done);
  ~DraftWorker();  // waits for the batch under way
  DraftWorker(const DraftWorker&) = delete;
  DraftWorker& operator=(const DraftWorker&) = delete;

  // Not before `done` has answered the one before.
  void Begin(const Session::Draft& draft);

 private:
  void Follow(std::span<const TokenId> committed, size_t reply_begin);
  void Run();

  Drafter& drafter_;
  const Done done_;

  // Of whoever's turn it is.
  TokenHistory history_;
  std::vector<DraftedNode> nodes_;
  std::vector<Drafter::Context> contexts_;
  Proposals proposals_;

  Mutex mu_;
  CondVar changed_;
  uint64_t batch_ ABSL_GUARDED_BY(mu_) = 0;  // under way, or 0
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
