#include "common/base/read_threads.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace outrider {

ReadThreads::~ReadThreads() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    threads = std::move(threads_);
  }
  submitted_.NotifyAll();
  for (std::thread& thread : threads) thread.join();
}

bool ReadThreads::Reserve(uint32_t depth) {
  MutexLock lock(mu_);
  waiting_.GrowBy(depth);
  const size_t wanted = std::min<size_t>(waiting_.capacity(), kCountMax);
  threads_.reserve(kCountMax);
  try {
    while (threads_.size() < wanted) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    // Fewer overlap fewer reads.
  }
  return !threads_.empty();
}

void ReadThreads::Submit(const Read& read) {
  {
    MutexLock lock(mu_);
    waiting_.Push(read);
  }
  submitted_.NotifyOne();
}

RawRead ReadThreads::Make(const Read& read) {
  const ssize_t result =
      pread(read.fd, read.out.data(), read.out.size(), static_cast<off_t>(read.offset));
  return {.slot = read.slot, .result = result < 0 ? -errno : result};
}

void ReadThreads::Work() {
  for (;;) {
    Read read;
    {
      MutexLock lock(mu_);
      while (waiting_.empty() && !stopping_) submitted_.Wait(mu_);
      if (stopping_) return;
      read = waiting_.Pop();
    }
    read.asker->OnRead(Make(read));
  }
}

}  // namespace outrider
