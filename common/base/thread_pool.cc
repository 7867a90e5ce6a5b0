#include "common/base/thread_pool.h"

#include <pthread.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// A pause takes some 40 to 140 cycles on current x86, so this is 20 to 50 microseconds; parking and
// waking costs about as much.
constexpr uint32_t kSpins = 1024;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // yield is a no-op on most cores; a barrier does give the pipeline a rest
#else
  std::this_thread::yield();
#endif
}

// Where there are more threads than processors, spinning would keep the others from working.
uint32_t SpinsFor(uint32_t thread_count) {
  return thread_count <= std::thread::hardware_concurrency() ? kSpins : 0;
}

// The pools whose loops this thread is in, the innermost first. Pools may be used inside each other.
class LoopOf;
thread_local const LoopOf* innermost = nullptr;

class LoopOf {
 public:
  explicit LoopOf(const ThreadPool* pool) : pool_(pool), outer_(innermost) {
    for (const LoopOf* loop = outer_; loop != nullptr; loop = loop->outer_) {
      OUTRIDER_CHECK(loop->pool_ != pool, "a pool runs no loop inside another of its own");
    }
    innermost = this;
  }
  ~LoopOf() { innermost = outer_; }
  LoopOf(const LoopOf&) = delete;
  LoopOf& operator=(const LoopOf&) = delete;

 private:
  const ThreadPool* const pool_;
  const LoopOf* const outer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::Create(uint32_t thread_count) {
  if (thread_count == 0 || thread_count > kThreadsMax) {
    return InvalidArgument("a pool of ", thread_count, " threads: ask for 1 to ", kThreadsMax);
  }
  std::unique_ptr<ThreadPool> pool(new ThreadPool(thread_count));
  OUTRIDER_RETURN_IF_ERROR(pool->Start());
  return pool;
}

ThreadPool::ThreadPool(uint32_t thread_count)
    : thread_count_(thread_count), spins_(SpinsFor(thread_count)) {}

absl::Status ThreadPool::Start() {
  threads_.reserve(thread_count_ - 1);
  for (uint32_t worker = 1; worker < thread_count_; ++worker) {
    try {
      threads_.emplace_back([this, worker] { Work(worker); });
    } catch (const std::system_error& error) {
      return ResourceExhausted("the machine gives ", worker, " of the ", thread_count_,
                               " threads asked for: ", error.code().message());
    }
  }
  return absl::OkStatus();
}

ThreadPool::~ThreadPool() {
  RunJob({});
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunJob(Job job) {
  const LoopOf in_loop(this);
  const LoopTurn turn(turns_);
  const bool stop = job.call == nullptr;
  job_ = job;
  // Not thread_count_ - 1: a pool that could not be started in full still has to be stopped.
  working_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
  loops_.fetch_add(1);
  if (parked_workers_.load() != 0) {
    { MutexLock lock(park_mu_); }  // those who looked before loops_ rose are in Wait() after this
    loop_started_.NotifyAll();
  }
  if (!stop) {
    const ScopedIeeeMode ieee_mode;
    job.call(job.callable, 0);
  }
  AwaitWorkers();
}

void ThreadPool::Work(uint32_t worker) {
  pthread_setname_np(pthread_self(), Concat("worker ", worker).c_str());
  const LoopOf in_loop(this);
  const ScopedIeeeMode ieee_mode;  // a new thread has the mode of the one that started it
  for (uint32_t loops_seen = 0;;) {
    loops_seen = AwaitLoop(loops_seen);
    const Job job = job_;
    if (job.call != nullptr) job.call(job.callable, worker);
    const bool last = working_.fetch_sub(1) == 1;
    if (last && caller_parked_.load()) {
      { MutexLock lock(park_mu_); }
      workers_finished_.NotifyOne();
    }
    if (job.call == nullptr) return;
  }
}

// Returns when more loops than `loops_seen` have been started, and how many. The caller waits for
// every worker before it starts the next, so none is ever missed.
uint32_t ThreadPool::AwaitLoop(uint32_t loops_seen) {
  for (uint32_t spin = 0; spin < spins_; ++spin) {
    if (const uint32_t loops = loops_.load(std::memory_order_acquire); loops != loops_seen) {
      return loops;
    }
    Pause();
  }
  MutexLock lock(park_mu_);
  parked_workers_.fetch_add(1);
  while (loops_.load() == loops_seen) loop_started_.Wait(park_mu_);
  parked_workers_.fetch_sub(1);
  return loops_.load();
}

void ThreadPool::AwaitWorkers() {
  for (uint32_t spin = 0; spin < spins_; ++spin) {
    if (working_.load(std::memory_order_acquire) == 0) return;
    Pause();
  }
  MutexLock lock(park_mu_);
  caller_parked_.store(true);
  while (working_.load() != 0) workers_finished_.Wait(park_mu_);
  caller_parked_.store(false);
}

}  // namespace outrider
