#include "common/base/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kBlockBytes = 4096;         // the least alignment, and that of flash files
constexpr size_t kBounceBytes = 256 * 1024;  // of Read()
constexpr size_t kSampleBytes = 64 * 1024;   // of each place compared by Open()
constexpr size_t kRawReadBytesMax = size_t{1} << 30;  // the kernel itself stops just below 2 GiB
constexpr uint32_t kRetriesMax = 1000;

struct Backend {
  bool direct;
  bool io_uring;
};

std::string NameOf(const Backend& backend) {
  return Concat(backend.io_uring ? "io_uring" : "pread",
                backend.direct ? " + O_DIRECT" : ", buffered");
}

struct PlainFile {
  FileDescriptor fd;
  struct stat info;
};

absl::StatusOr<PlainFile> OpenPlain(const std::string& path) {
  // O_NONBLOCK, so that a pipe is refused and not waited for. Not afterwards: on such a descriptor
  // io_uring gives up where it would have to wait for the storage.
  PlainFile file{.fd = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
                 .info = {}};
  if (!file.fd.is_open()) return ErrnoStatus(errno, Concat(path, ": cannot open"));
  if (fstat(file.fd.get(), &file.info) != 0 || !S_ISREG(file.info.st_mode)) {
    return InvalidArgument(path, ": is not a regular file");
  }
  if (fcntl(file.fd.get(), F_SETFL, 0) != 0) {
    return ErrnoStatus(errno, Concat(path, ": cannot make its reads wait"));
  }
  return file;
}

struct DirectDescriptor {
  FileDescriptor fd;
  size_t alignment;
};

// The same file past the page cache.
absl::StatusOr<DirectDescriptor> OpenDirect(const std::string& path, const struct stat& plain) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!fd.is_open()) return ErrnoStatus(errno, "the file system refuses O_DIRECT");
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || info.st_dev != plain.st_dev || info.st_ino != plain.st_ino) {
    return FailedPrecondition("the file was replaced while it was being opened");
  }
  size_t alignment = kBlockBytes;
#ifdef STATX_DIOALIGN  // in kernel headers from 6.1 on; where nobody says, a block it is
  struct statx details;
  if (statx(fd.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &details) == 0 &&
      (details.stx_mask & STATX_DIOALIGN) != 0) {
    if (details.stx_dio_offset_align == 0) {
      return FailedPrecondition("the file system does no direct I/O on this file");
    }
    alignment = std::bit_ceil(
        std::max<size_t>({alignment, details.stx_dio_offset_align, details.stx_dio_mem_align}));
  }
#endif
  return DirectDescriptor{.fd = std::move(fd), .alignment = alignment};
}

// `plain` with everything that can be known of `backend` before anybody believes it.
absl::StatusOr<std::unique_ptr<DirectFile>> OpenUnchecked(const std::string& path,
                                                          const PlainFile& plain,
                                                          const Backend& backend,
                                                          const DirectFile::Options& options) {
  DirectDescriptor opened{.fd = {}, .alignment = kBlockBytes};
  if (backend.direct) {
    OUTRIDER_ASSIGN_OR_RETURN(opened, OpenDirect(path, plain.info));
  } else {
    opened.fd = FileDescriptor(fcntl(plain.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!opened.fd.is_open()) return ErrnoStatus(errno, Concat(path, ": cannot open it twice"));
  }
  std::unique_ptr<ReadBehind> behind;
  if (!backend.direct) {
    FileDescriptor again(fcntl(opened.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!again.is_open()) return ErrnoStatus(errno, Concat(path, ": cannot open it twice"));
    behind = std::make_unique<ReadBehind>(std::move(again));
  }
  std::unique_ptr<ReadEngine> engine;
  if (backend.io_uring) {
    OUTRIDER_ASSIGN_OR_RETURN(engine, MakeUringEngine(std::move(opened.fd), options.queue_depth));
  } else {
    engine = MakePreadEngine(std::move(opened.fd), options.queue_depth, options.threads);
  }
  return std::make_unique<DirectFile>(
      DirectFile::Source{.path = path,
                         .size = static_cast<uint64_t>(plain.info.st_size),
                         .alignment = opened.alignment,
                         .backend = NameOf(backend)},
      options.queue_depth, std::move(engine), std::move(behind));
}

absl::Status ReadPlainly(int fd, const std::string& path, uint64_t offset,
                         std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return ErrnoStatus(errno,
                         Concat(path, ": cannot read ", out.size(), " bytes at offset ", offset));
    }
    if (count == 0) return DataLoss(path, ": ends at offset ", offset, ", shorter than it was");
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectFile>> DirectFile::Open(const std::string& path,
                                                             const Options& options) {
  if (options.queue_depth == 0 || options.queue_depth > kQueueDepthMax) {
    return InvalidArgument(path, ": cannot be read with ", options.queue_depth,
                           " reads in flight: ask for 1 to ", kQueueDepthMax);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const PlainFile plain, OpenPlain(path));

  absl::Status last_refusal;
  std::vector<std::string> refusals;
  for (const Backend backend :
       {Backend{.direct = true, .io_uring = true}, Backend{.direct = true, .io_uring = false},
        Backend{.direct = false, .io_uring = true}, Backend{.direct = false, .io_uring = false}}) {
    if ((backend.direct && !options.direct) || (backend.io_uring && !options.io_uring)) continue;
    absl::StatusOr<std::unique_ptr<DirectFile>> file = OpenUnchecked(path, plain, backend, options);
    last_refusal = file.ok() ? CompareWithPlainReads(**file, plain.fd.get()) : file.status();
    if (last_refusal.ok()) {
      (*file)->refusals_ = std::move(refusals);
      return file;
    }
    refusals.push_back(Concat(NameOf(backend), ": ", Message(last_refusal)));
  }
  return last_refusal;  // of plain reads: the file itself cannot be read
}

DirectFile::DirectFile(Source source, uint32_t queue_depth, std::unique_ptr<ReadEngine> engine,
                       std::unique_ptr<ReadBehind> behind)
    : source_(std::move(source)),
      behind_(std::move(behind)),
      engine_(std::move(engine)),
      slots_(queue_depth) {
  OUTRIDER_CHECK(std::has_single_bit(source_.alignment), "an alignment is a power of two");
  for (uint32_t slot = 0; slot < queue_depth; ++slot) free_slots_.push_back(slot);
}

DirectFile::~DirectFile() {
  while (in_flight() > 0) free_slots_.push_back(engine_->Wait().slot);
}

absl::Status DirectFile::CheckRange(uint64_t offset, uint64_t length, uint64_t end) const {
  if (offset <= end && length <= end - offset) return absl::OkStatus();
  return absl::OutOfRangeError(Concat(path(), ": cannot read ", length, " bytes at offset ", offset,
                                      ", the file has ", size()));
}

absl::Status DirectFile::SubmitRead(uint64_t offset, std::span<std::byte> out, uint64_t tag) {
  OUTRIDER_CHECK(offset == RoundDown(offset) && out.size() == RoundDown(out.size()) &&
                     (out.empty() || reinterpret_cast<uintptr_t>(out.data()) % alignment() == 0),
                 "offset, length and memory of a submitted read are aligned");
  OUTRIDER_RETURN_IF_ERROR(CheckRange(offset, out.size(), RoundUp(size())));
  if (free_slots_.empty()) {
    return ResourceExhausted(path(), ": has all of ", slots_.size(), " reads in flight");
  }
  const uint32_t slot_index = free_slots_.back();
  slots_[slot_index] = {
      .tag = tag,
      .offset = offset,
      .out = out,
      .wanted = std::min<uint64_t>(out.size(), size() - std::min(offset, size()))};
  OUTRIDER_RETURN_IF_ERROR(SubmitRest(slot_index));
  free_slots_.pop_back();
  return absl::OkStatus();
}

absl::Status DirectFile::SubmitRest(uint32_t slot_index) {
  const Slot& slot = slots_[slot_index];
  const std::span<std::byte> rest = slot.out.subspan(slot.done);
  return Annotate(engine_->Submit(slot_index, slot.offset + slot.done,
                                  rest.first(std::min(rest.size(), kRawReadBytesMax))),
                  path());
}

DirectFile::Completion DirectFile::WaitCompletion() {
  OUTRIDER_CHECK(in_flight() > 0, "only a read in flight can be waited for");
  for (;;) {
    const RawRead raw = engine_->Wait();
    if (std::optional<absl::Status> status = Continue(raw.slot, raw.result)) {
      free_slots_.push_back(raw.slot);
      if (behind_ != nullptr) behind_->Add(slots_[raw.slot].offset, slots_[raw.slot].wanted);
      return {.tag = slots_[raw.slot].tag, .status = *std::move(status)};
    }
  }
}

// How the read in a slot has ended, or nullopt when it goes on.
std::optional<absl::Status> DirectFile::Continue(uint32_t slot_index, int64_t result) {
  Slot& slot = slots_[slot_index];
  const uint64_t missing = slot.wanted - slot.done;
  const uint64_t offset = slot.offset + slot.done;
  if (result < 0) {
    const bool passing = result == -EINTR || result == -EAGAIN;
    if (!passing || ++slot.retries > kRetriesMax) {
      return ErrnoStatus(static_cast<int>(-result),
                         Concat(path(), ": cannot read ", missing, " bytes at offset ", offset));
    }
  } else if (static_cast<uint64_t>(result) >= missing) {
    // What the kernel found past the size we know (the file grew) is nobody's business either.
    std::fill(slot.out.begin() + static_cast<ptrdiff_t>(slot.wanted), slot.out.end(), std::byte{0});
    return absl::OkStatus();
  } else {
    // A read cut short goes on from the last whole block, for nothing else may be asked of
    // O_DIRECT. Less than a block is what the kernel gives only where the file ends.
    const uint64_t progress = RoundDown(static_cast<uint64_t>(result));
    if (progress == 0) {
      return DataLoss(path(), ": ends at offset ", offset + static_cast<uint64_t>(result),
                      ", it had ", size(), " bytes when it was opened");
    }
    slot.done += progress;
    slot.retries = 0;
  }
  const absl::Status resubmitted = SubmitRest(slot_index);
  if (!resubmitted.ok()) return resubmitted;
  return std::nullopt;
}

DirectFile::Extent DirectFile::ExtentOf(uint64_t offset, uint64_t length) const {
  OUTRIDER_CHECK(CheckRange(offset, length, size()).ok(), "an extent lies in its file");
  const uint64_t begin = RoundDown(offset);
  return {.offset = begin, .length = RoundUp(offset + length) - begin, .skip = offset - begin};
}

absl::Status DirectFile::Read(uint64_t offset, std::span<std::byte> out) {
  OUTRIDER_CHECK(in_flight() == 0, "Read() would have to wait for the reads in flight");
  OUTRIDER_RETURN_IF_ERROR(CheckRange(offset, out.size(), size()));
  const size_t bounce_bytes = std::max(kBounceBytes, alignment());
  if (bounce_.bytes().empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(bounce_, AlignedBuffer::Create(bounce_bytes, alignment()));
  }
  while (!out.empty()) {
    const uint64_t skip = offset - RoundDown(offset);
    const size_t count = std::min<size_t>(out.size(), bounce_bytes - skip);
    const Extent extent = ExtentOf(offset, count);
    const std::span<std::byte> blocks = bounce_.bytes().first(extent.length);
    OUTRIDER_RETURN_IF_ERROR(SubmitRead(extent.offset, blocks, /*tag=*/0));
    OUTRIDER_RETURN_IF_ERROR(WaitCompletion().status);
    std::memcpy(out.data(), blocks.data() + extent.skip, count);
    out = out.subspan(count);
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status CompareWithPlainReads(DirectFile& file, int plain_fd) {
  std::vector<std::byte> direct(std::min<uint64_t>(kSampleBytes, file.size()));
  std::vector<std::byte> plain(direct.size());
  const uint64_t last = file.size() - direct.size();
  for (const uint64_t offset : {uint64_t{0}, last / 2, last}) {
    OUTRIDER_RETURN_IF_ERROR(file.Read(offset, direct));
    OUTRIDER_RETURN_IF_ERROR(ReadPlainly(plain_fd, file.path(), offset, plain));
    if (direct != plain) {
      return DataLoss(file.path(), ": has other bytes past the page cache than in it, in the ",
                      plain.size(), " at offset ", offset);
    }
  }
  return absl::OkStatus();
}

}  // namespace outrider
