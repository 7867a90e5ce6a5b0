// The thread on which a server drafts for those who asked it to: one task after the other, in the
// order in which they were asked for.
//
// Queue:   a task for each Generate that drafts, at the most.
// Threads: any may call Do(); tasks are done on its own. ~DraftingThread() waits for those there are.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace outrider {

class DraftingThread {
 public:
  DraftingThread() : thread_([this] { Run(); }) {}
  ~DraftingThread();

  void Do(std::function<void()> task);

 private:
  void Run();

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
