// The thread on which a draft beside a target works: one session's job after the other's, as they
// were asked for.
//
// Queue:   a job of every session, and the end of those that are gone: of a session that has gone no
//          job is done any more, or else who comes and goes would leave one each time.
// Threads: any may call it; `drafted` is called on its own, as is the drafters' maker, and all that
//          this makes is used there alone. ~DraftThread() cancels what is under way and waits for it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "common/speculation/drafting/cancellation.h"
#include "common/verification/draft_job.h"
#include "common/verification/draft_runner.h"

namespace outrider {

class DraftThread {
 public:
  // `time`: what the job took.
  using OnDrafted =
      std::function<void(uint64_t session, std::span<const TokenId> chain, Duration time)>;

  DraftThread(DraftRunner::NewDrafter new_drafter, uint32_t context_length, OnDrafted drafted);
  ~DraftThread();

  void Do(DraftJob job);
  void Forget(uint64_t session);

 private:
  struct Asked {
    uint64_t session;
    std::unique_ptr<DraftJob> job;  // null: it is gone
  };

  std::optional<Asked> Next();  // none: it is to stop
  void Run();

  DraftRunner runner_;  // the thread's own
  const OnDrafted drafted_;
  Mutex mu_;
  CondVar asked_something_;
  std::deque<Asked> asked_ ABSL_GUARDED_BY(mu_);
  std::optional<uint64_t> working_for_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Cancellation moot_;   // the job under way
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
