#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/bounded_ring.h"
#include "common/base/mutex.h"
#include "common/base/read_engine.h"
#include "common/base/read_threads.h"

namespace outrider {
namespace {

class PreadEngine final : public ReadEngine, private ReadThreads::Asker {
 public:
  PreadEngine(FileDescriptor file, uint32_t depth, std::shared_ptr<ReadThreads> threads)
      : file_(std::move(file)),
        threads_(std::move(threads)),
        has_threads_(threads_->Reserve(depth)),
        unmade_(has_threads_ ? 0 : depth),
        answered_(depth) {}

  absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) override {
    const ReadThreads::Read read = {file_.get(), slot, offset, out, this};
    if (has_threads_) {
      threads_->Submit(read);
    } else {
      unmade_.Push(read);
    }
    return absl::OkStatus();
  }

  RawRead Wait() override {
    if (!has_threads_) return ReadThreads::Make(unmade_.Pop());
    MutexLock lock(mu_);
    while (answered_.empty()) finished_.Wait(mu_);
    return answered_.Pop();
  }

 private:
  // Who waits may end this engine as soon as it has the lock, so it is woken before.
  void OnRead(const RawRead& read) override {
    MutexLock lock(mu_);
    answered_.Push(read);
    finished_.NotifyOne();
  }

  const FileDescriptor file_;
  const std::shared_ptr<ReadThreads> threads_;
  const bool has_threads_;
  BoundedRing<ReadThreads::Read> unmade_;  // where nobody else makes them
  Mutex mu_;
  CondVar finished_;
  BoundedRing<RawRead> answered_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<ReadEngine> MakePreadEngine(FileDescriptor file, uint32_t depth,
                                            std::shared_ptr<ReadThreads> threads) {
  if (threads == nullptr) threads = std::make_shared<ReadThreads>();
  return std::make_unique<PreadEngine>(std::move(file), depth, std::move(threads));
}

}  // namespace outrider
