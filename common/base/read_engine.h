// How raw reads get to the kernel: the seam inside DirectFile (direct_file.h), which is what other
// code reads through. DirectFile knows offsets, tails and retries; an engine only passes reads on
// and hands results back, as the kernel gave them.
//
//   io_uring   the reads in flight are the kernel's; refused by many containers and by Android
//   pread      the reads in flight are made by a few threads (read_threads.h)
//
// Tests put engines of their own here, to bring short reads, errors and lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"

namespace outrider {

class ReadThreads;

// A read that the kernel has answered: with the number of bytes, or with -errno.
struct RawRead {
  uint32_t slot;
  int64_t result;
};

// Used by one thread. No more than the `depth` an engine was made with are in flight.
class ReadEngine {
 public:
  // No reads are in flight: the kernel would go on writing to their memory.
  virtual ~ReadEngine() = default;

  // Starts one read(2) of out.size() bytes at `offset`. `slot` names it and is not in flight. After
  // an error the read has not been started and never will be.
  virtual absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) = 0;

  // Waits for one of the reads in flight, of which there is one.
  virtual RawRead Wait() = 0;
};

// FailedPrecondition, with the reason, where the kernel refuses io_uring.
absl::StatusOr<std::unique_ptr<ReadEngine>> MakeUringEngine(FileDescriptor file, uint32_t depth);
// Null: it has threads of its own.
std::unique_ptr<ReadEngine> MakePreadEngine(FileDescriptor file, uint32_t depth,
                                            std::shared_ptr<ReadThreads> threads = nullptr);

}  // namespace outrider
