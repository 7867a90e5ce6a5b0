#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/read_engine.h"

namespace outrider {
namespace {

// Flash is saturated by two reads of 256 KiB and up; two more cover the moments in between.
constexpr uint32_t kThreadsMax = 4;

class PreadEngine final : public ReadEngine {
 public:
  PreadEngine(FileDescriptor file, uint32_t depth)
      : file_(std::move(file)), waiting_(depth), answered_(depth) {
    const uint32_t thread_count = std::min(depth, kThreadsMax);
    threads_.reserve(thread_count);
    try {
      for (uint32_t i = 0; i < thread_count; ++i) threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      // Fewer overlap fewer reads, and with none at all Wait() reads by itself.
    }
  }

  ~PreadEngine() override {
    {
      MutexLock lock(mu_);
      stopping_ = true;
    }
    submitted_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) override {
    {
      MutexLock lock(mu_);
      waiting_.Push({slot, offset, out});
    }
    submitted_.NotifyOne();
    return absl::OkStatus();
  }

  RawRead Wait() override {
    MutexLock lock(mu_);
    if (threads_.empty()) return Make(waiting_.Pop());
    while (answered_.empty()) finished_.Wait(mu_);
    return answered_.Pop();
  }

 private:
  struct Waiting {
    uint32_t slot;
    uint64_t offset;
    std::span<std::byte> out;
  };

  // First in, first out; never more than an engine has reads in flight.
  template <typename Item>
  class Ring {
   public:
    explicit Ring(size_t capacity) : items_(capacity) {}

    bool empty() const { return count_ == 0; }
    void Push(const Item& item) {
      OUTRIDER_CHECK(count_ < items_.size(),
                     "no more reads in flight than the engine has room for");
      items_[(first_ + count_++) % items_.size()] = item;
    }
    Item Pop() {
      OUTRIDER_CHECK(count_ > 0, "only a read in flight can be waited for");
      --count_;
      return items_[std::exchange(first_, (first_ + 1) % items_.size())];
    }

   private:
    std::vector<Item> items_;
    size_t first_ = 0;
    size_t count_ = 0;
  };

  RawRead Make(const Waiting& read) const {
    const ssize_t result =
        pread(file_.get(), read.out.data(), read.out.size(), static_cast<off_t>(read.offset));
    return {.slot = read.slot, .result = result < 0 ? -errno : result};
  }

  void Work() {
    for (;;) {
      Waiting read;
      {
        MutexLock lock(mu_);
        while (waiting_.empty() && !stopping_) submitted_.Wait(mu_);
        if (stopping_) return;
        read = waiting_.Pop();
      }
      const RawRead answer = Make(read);
      {
        MutexLock lock(mu_);
        answered_.Push(answer);
      }
      finished_.NotifyOne();
    }
  }

  const FileDescriptor file_;
  Mutex mu_;
  CondVar submitted_;
  CondVar finished_;
  Ring<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  Ring<RawRead> answered_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;  // last: start when all above exists
};

}  // namespace

std::unique_ptr<ReadEngine> MakePreadEngine(FileDescriptor file, uint32_t depth) {
  return std::make_unique<PreadEngine>(std::move(file), depth);
}

}  // namespace outrider
