#include <liburing.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/read_engine.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// The kernel says EAGAIN or EBUSY when it is short of memory for requests, which passes.
constexpr int kSubmitTriesMax = 1000;

class UringEngine final : public ReadEngine {
 public:
  explicit UringEngine(FileDescriptor file) : file_(std::move(file)) {}
  ~UringEngine() override {
    if (initialised_) io_uring_queue_exit(&ring_);
  }

  absl::Status Initialise(uint32_t depth) {
    if (const int error = io_uring_queue_init(depth, &ring_, 0); error != 0) {
      return FailedPrecondition("the kernel refuses io_uring: ",
                                std::generic_category().message(-error));
    }
    initialised_ = true;
    return absl::OkStatus();
  }

  absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) override {
    OUTRIDER_RETURN_IF_ERROR(broken_);
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    OUTRIDER_CHECK(entry != nullptr, "no more reads in flight than the ring has entries");
    io_uring_prep_read(entry, file_.get(), out.data(), static_cast<unsigned>(out.size()), offset);
    io_uring_sqe_set_data64(entry, slot);
    for (int tries = 0; tries < kSubmitTriesMax; ++tries) {
      const int submitted = io_uring_submit(&ring_);
      if (submitted == 1) return absl::OkStatus();
      if (submitted != -EAGAIN && submitted != -EBUSY && submitted != -EINTR) {
        return Break(submitted < 0 ? -submitted : EIO);
      }
    }
    return Break(EAGAIN);
  }

  RawRead Wait() override {
    io_uring_cqe* completion = nullptr;
    int error;
    do {
      error = io_uring_wait_cqe(&ring_, &completion);
    } while (error == -EINTR || error == -EAGAIN);
    OUTRIDER_CHECK(error == 0, "a ring of ours can be waited on");
    const RawRead read = {.slot = static_cast<uint32_t>(io_uring_cqe_get_data64(completion)),
                          .result = completion->res};
    io_uring_cqe_seen(&ring_, completion);
    return read;
  }

 private:
  // The entry stays in the ring and a later submit would start it, into memory its owner may have
  // given up by then. So there is no later submit.
  absl::Status Break(int error_number) {
    broken_ = ErrnoStatus(error_number, "io_uring takes no more reads");
    return broken_;
  }

  const FileDescriptor file_;
  io_uring ring_ = {};
  bool initialised_ = false;
  absl::Status broken_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadEngine>> MakeUringEngine(FileDescriptor file, uint32_t depth) {
  auto engine = std::make_unique<UringEngine>(std::move(file));
  OUTRIDER_RETURN_IF_ERROR(engine->Initialise(depth));
  return engine;
}

}  // namespace outrider
