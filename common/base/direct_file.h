// Reads a file past the page cache, with several reads in flight: how weights come from flash.
//
//   OUTRIDER_ASSIGN_OR_RETURN(PageBuffer memory, PageBuffer::Create(slot_bytes));
//   OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<DirectFile> file, DirectFile::Open(path, {}));
//   const DirectFile::Extent extent = file->ExtentOf(tensor_offset, tensor_bytes);
//   OUTRIDER_RETURN_IF_ERROR(
//       file->SubmitRead(extent.offset, memory.bytes().first(extent.length), /*tag=*/7));
//   ...                                                      // more of them, up to queue_depth
//   DirectFile::Completion done = file->WaitCompletion();    // whichever finishes first
//   // the tensor begins at memory.bytes()[extent.skip]
//
// How: O_DIRECT where the file system allows it, buffered elsewhere, and what that leaves in the page
// cache is given back behind the reads (read_behind.h); io_uring where the kernel
// allows it, pread() elsewhere. Open() finds out by trying, best first, and believes no answer
// before it has read the first, middle and last bytes of the file both that way and plainly, and
// compared: some file systems (Android's FUSE) accept O_DIRECT and return wrong bytes.
// backend() says what it came to, refusals() what was refused and why.
//
// Alignment: the offset, length and memory of a submitted read are multiples of alignment(),
// whichever back end there is. The file's last block may be a short one: it is read as a whole
// block all the same, and what lies past the end of the file comes out as zeros. Read() takes any
// offset and length, at the price of a copy.
//
// Threads: one at a time, and that thread outlives the reads it submitted (the kernel cancels the
//          reads of threads that end).
// Memory:  a table of queue_depth reads, taken by Open(), and 256 KiB, taken by the first Read().
//          Submitted reads go into the caller's memory, and the kernel writes there until their
//          completion or until the destructor has waited for them: declare the memory first, as
//          above, and it goes last.
// Errors:  OutOfRange for a read past the size the file had at Open(), DataLoss for bytes that are
//          gone or unreadable, each naming file and offset; ResourceExhausted for a read beyond
//          queue_depth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/read_behind.h"
#include "common/base/read_engine.h"
#include "common/base/read_threads.h"

namespace outrider {

class DirectFile {
 public:
  struct Options {
    // Flash is saturated by two reads of 256 KiB and up; more only helps small ones.
    uint32_t queue_depth = 4;
    // What may be tried: the best back end is what is allowed and works.
    bool direct = true;
    bool io_uring = true;
    // Without io_uring: who reads, for all the files that have these. Null: threads of its own.
    std::shared_ptr<ReadThreads> threads = nullptr;
  };
  static constexpr uint32_t kQueueDepthMax = 1024;

  struct Completion {
    uint64_t tag;
    absl::Status status;
  };

  // Whole blocks around some bytes of interest, which begin `skip` bytes into them.
  struct Extent {
    uint64_t offset;
    uint64_t length;
    uint64_t skip;
  };

  // What is read, and how its blocks lie.
  struct Source {
    std::string path;
    uint64_t size;
    size_t alignment;  // a power of two
    std::string backend;
  };

  static absl::StatusOr<std::unique_ptr<DirectFile>> Open(const std::string& path,
                                                          const Options& options);

  // Over an engine made elsewhere. `behind` is of the same file; null: nothing is given back.
  DirectFile(Source source, uint32_t queue_depth, std::unique_ptr<ReadEngine> engine,
             std::unique_ptr<ReadBehind> behind = nullptr);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  // Starts reading [offset, offset + out.size()) into `out`, which is aligned and may reach past
  // the end of the file only within its last block.
  absl::Status SubmitRead(uint64_t offset, std::span<std::byte> out, uint64_t tag);

  // Waits for one of the reads in flight, of which there must be one.
  Completion WaitCompletion();

  uint32_t queue_depth() const { return static_cast<uint32_t>(slots_.size()); }
  size_t in_flight() const { return slots_.size() - free_slots_.size(); }

  // Fills `out` from any offset, inside the file. No reads are in flight.
  absl::Status Read(uint64_t offset, std::span<std::byte> out);

  // For the bytes [offset, offset + length), which lie in the file.
  Extent ExtentOf(uint64_t offset, uint64_t length) const;

  const std::string& path() const { return source_.path; }
  uint64_t size() const { return source_.size; }          // when opened
  size_t alignment() const { return source_.alignment; }  // 4096 or more
  // "io_uring + O_DIRECT", "io_uring, buffered", "pread + O_DIRECT" or "pread, buffered".
  const std::string& backend() const { return source_.backend; }
  // Why it is none of the better ones: a sentence for each that was tried.
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  struct Slot {
    uint64_t tag = 0;
    uint64_t offset = 0;
    std::span<std::byte> out;
    uint64_t wanted = 0;   // bytes of out that the file has
    uint64_t done = 0;     // bytes of wanted that have arrived
    uint32_t retries = 0;  // since the last progress
  };

  absl::Status SubmitRest(uint32_t slot_index);
  std::optional<absl::Status> Continue(uint32_t slot_index, int64_t result);
  absl::Status CheckRange(uint64_t offset, uint64_t length, uint64_t end) const;
  uint64_t RoundDown(uint64_t bytes) const { return bytes & ~uint64_t{alignment() - 1}; }
  uint64_t RoundUp(uint64_t bytes) const { return RoundDown(bytes + alignment() - 1); }

  const Source source_;
  std::vector<std::string> refusals_;   // constant after Open()
  std::unique_ptr<ReadBehind> behind_;  // of buffered reads
  std::unique_ptr<ReadEngine> engine_;
  std::vector<Slot> slots_;           // queue_depth of them
  std::vector<uint32_t> free_slots_;  // those not in flight
  AlignedBuffer bounce_;              // for Read(), taken at its first use
};

// Reads the first, middle and last bytes of `file` and compares them with what pread() gets from
// `plain_fd`, the same file opened plainly. DataLoss where they differ.
absl::Status CompareWithPlainReads(DirectFile& file, int plain_fd);

}  // namespace outrider
