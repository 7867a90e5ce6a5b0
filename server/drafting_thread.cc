#include "server/drafting_thread.h"

#include <utility>

namespace outrider {

DraftingThread::~DraftingThread() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void DraftingThread::Do(std::function<void()> task) {
  MutexLock lock(mu_);
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
}

void DraftingThread::Run() {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mu_);
      while (tasks_.empty() && !stopping_) changed_.Wait(mu_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace outrider
