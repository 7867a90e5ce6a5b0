#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/read_engine.h"

namespace outrider {
namespace {

class PreadEngine final : public ReadEngine {
 public:
  PreadEngine(FileDescriptor file, uint32_t depth) : file_(std::move(file)), waiting_(depth) {}

  absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) override {
    OUTRIDER_CHECK(count_ < waiting_.size(),
                   "no more reads in flight than the engine has room for");
    waiting_[(first_ + count_++) % waiting_.size()] = {slot, offset, out};
    return absl::OkStatus();
  }

  RawRead Wait() override {
    OUTRIDER_CHECK(count_ > 0, "only a read in flight can be waited for");
    const Waiting read = waiting_[first_];
    first_ = (first_ + 1) % waiting_.size();
    --count_;
    const ssize_t result =
        pread(file_.get(), read.out.data(), read.out.size(), static_cast<off_t>(read.offset));
    return {.slot = read.slot, .result = result < 0 ? -errno : result};
  }

 private:
  struct Waiting {
    uint32_t slot;
    uint64_t offset;
    std::span<std::byte> out;
  };

  const FileDescriptor file_;
  std::vector<Waiting> waiting_;  // a ring: the oldest at first_, count_ of them
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace

std::unique_ptr<ReadEngine> MakePreadEngine(FileDescriptor file, uint32_t depth) {
  return std::make_unique<PreadEngine>(std::move(file), depth);
}

}  // namespace outrider
