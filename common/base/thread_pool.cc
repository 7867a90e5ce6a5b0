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
  return thread_count <= std::thread::hardware_concurrency() ? kSpins : 1;
}

// What loop_ is made of.
constexpr uint64_t kJoined = 0xffff;  // so many, besides the caller
constexpr uint64_t kOpen = uint64_t{1} << 16;
constexpr int kNumberShift = 17;
constexpr uint64_t kStopped = ~uint64_t{0};
static_assert(ThreadPool::kThreadsMax <= kJoined);

uint64_t NumberOf(uint64_t loop) {
  return loop >> kNumberShift;
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
  Begin(kStopped);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunJob(Job job) {
  const LoopOf in_loop(this);
  const LoopTurn turn(turns_);
  job_ = job;
  finished_.store(0, std::memory_order_relaxed);
  Begin((NumberOf(loop_.load(std::memory_order_relaxed)) + 1) << kNumberShift | kOpen);
  {
    const ScopedIeeeMode ieee_mode;
    job.call(job.callable);
  }
  // Every iteration is somebody's by now: nobody else need come.
  AwaitFinished(static_cast<uint32_t>(loop_.fetch_and(~kOpen) & kJoined));
}

void ThreadPool::Begin(uint64_t loop) {
  loop_.store(loop);
  if (parked_workers_.load() == 0) return;
  { MutexLock lock(park_mu_); }  // those who looked before loop_ changed are in Wait() after this
  loop_started_.NotifyAll();
}

void ThreadPool::Work(uint32_t worker) {
  pthread_setname_np(pthread_self(), Concat("worker ", worker).c_str());
  const LoopOf in_loop(this);
  const ScopedIeeeMode ieee_mode;  // a new thread has the mode of the one that started it
  for (uint64_t number_seen = 0;;) {
    const uint64_t loop = AwaitLoop(number_seen);
    if (loop == kStopped) return;
    if (!Join(loop)) continue;
    job_.call(job_.callable);
    finished_.fetch_add(1);
    if (!caller_parked_.load()) continue;
    { MutexLock lock(park_mu_); }
    workers_finished_.NotifyOne();
  }
}

// Returns when a loop is open that is not the one of `number_seen`, which becomes its number. Others
// come and go meanwhile; while they do, there is no parking.
uint64_t ThreadPool::AwaitLoop(uint64_t& number_seen) {
  for (;;) {
    for (uint32_t spin = 0; spin < spins_; ++spin) {
      const uint64_t loop = loop_.load(std::memory_order_acquire);
      if (NumberOf(loop) != number_seen) {
        number_seen = NumberOf(loop);
        if ((loop & kOpen) != 0) return loop;
        spin = 0;
      }
      Pause();
    }
    MutexLock lock(park_mu_);
    parked_workers_.fetch_add(1);
    while (NumberOf(loop_.load()) == number_seen) loop_started_.Wait(park_mu_);
    parked_workers_.fetch_sub(1);
  }
}

// False: it is over, or all but.
bool ThreadPool::Join(uint64_t loop) {
  uint64_t now = loop;
  while (NumberOf(now) == NumberOf(loop) && (now & kOpen) != 0) {
    if (loop_.compare_exchange_weak(now, now + 1)) return true;
  }
  return false;
}

void ThreadPool::AwaitFinished(uint32_t joined) {
  for (uint32_t spin = 0; spin < spins_; ++spin) {
    if (finished_.load(std::memory_order_acquire) == joined) return;
    Pause();
  }
  MutexLock lock(park_mu_);
  caller_parked_.store(true);
  while (finished_.load() != joined) workers_finished_.Wait(park_mu_);
  caller_parked_.store(false);
}

}  // namespace outrider
