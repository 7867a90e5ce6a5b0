#include "common/base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

std::string DirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

absl::Status CheckTarget(const std::string& path) {
  if (path.empty()) return InvalidArgument("the path of the file to write is empty");
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode)) return absl::OkStatus();
    return InvalidArgument(path, ": is not a regular file and cannot be replaced by one");
  }
  const std::string directory = DirectoryOf(path);
  if (stat(directory.c_str(), &info) != 0) {
    return ErrnoStatus(errno,
                       Concat(path, ": cannot be written to the directory \"", directory, "\""));
  }
  if (!S_ISDIR(info.st_mode)) {
    return InvalidArgument(path, ": cannot be written, \"", directory, "\" is not a directory");
  }
  return absl::OkStatus();
}

bool IsFileNamed(int fd, const std::string& path) {
  struct stat opened;
  struct stat named;
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// The partial file, locked and empty.
absl::StatusOr<int> OpenPartial(const std::string& path, const std::string& partial_path) {
  for (;;) {
    const int fd = open(partial_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
      return ErrnoStatus(errno, Concat(path, ": cannot create ", partial_path, " to write it"));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(fd);
      return absl::AlreadyExistsError(
          Concat(path, ": is being written already, through ", partial_path));
    }
    // Between open() and flock() the file's previous writer may have renamed it into place;
    // emptying it now would empty a finished file.
    if (!IsFileNamed(fd, partial_path)) {
      close(fd);
      continue;
    }
    if (ftruncate(fd, 0) != 0) {
      const int error_number = errno;
      close(fd);
      return ErrnoStatus(error_number, Concat(path, ": cannot empty ", partial_path));
    }
    return fd;
  }
}

// 0 or errno. File systems that cannot sync a directory say EINVAL; the rename itself has happened.
int SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error_number = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return error_number == EINVAL ? 0 : error_number;
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(std::string path) {
  OUTRIDER_RETURN_IF_ERROR(CheckTarget(path));
  std::string partial_path = Concat(path, ".", getpid(), ".partial");
  OUTRIDER_ASSIGN_OR_RETURN(const int fd, OpenPartial(path, partial_path));
  return AtomicFile(std::move(path), std::move(partial_path), fd);
}

AtomicFile::AtomicFile(std::string path, std::string partial_path, int fd)
    : path_(std::move(path)),
      partial_path_(std::move(partial_path)),
      fd_(fd),
      buffer_(new std::byte[kBufferBytes]) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_path_(std::move(other.partial_path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      buffered_(other.buffered_),
      buffer_(std::move(other.buffer_)),
      failure_(std::move(other.failure_)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(partial_path_, other.partial_path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(buffered_, other.buffered_);
  std::swap(buffer_, other.buffer_);
  std::swap(failure_, other.failure_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(partial_path_.c_str());  // before close(), which gives up the lock
  close(fd_);
}

absl::Status AtomicFile::Append(std::string_view text) {
  return Append(std::as_bytes(std::span(text)));
}

absl::Status AtomicFile::Append(std::span<const std::byte> bytes) {
  OUTRIDER_CHECK(fd_ >= 0, "nothing is appended to a file after its Commit()");
  OUTRIDER_RETURN_IF_ERROR(failure_);
  size_ += bytes.size();
  if (bytes.size() > kBufferBytes - buffered_) OUTRIDER_RETURN_IF_ERROR(Flush());
  if (bytes.size() >= kBufferBytes) return WriteThrough(bytes);
  std::copy(bytes.begin(), bytes.end(), buffer_.get() + buffered_);
  buffered_ += bytes.size();
  return absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  return WriteThrough({buffer_.get(), std::exchange(buffered_, 0)});
}

absl::Status AtomicFile::WriteThrough(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Fail(errno, Concat("cannot write the last ", bytes.size(), " of ", size_, " bytes"));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  OUTRIDER_CHECK(fd_ >= 0, "a file is committed once");
  OUTRIDER_RETURN_IF_ERROR(failure_);
  OUTRIDER_RETURN_IF_ERROR(Flush());
  if (fsync(fd_) != 0) return Fail(errno, Concat("cannot sync its ", size_, " bytes to storage"));
  if (rename(partial_path_.c_str(), path_.c_str()) != 0) {
    return Fail(errno, Concat("cannot rename ", partial_path_, " to it"));
  }
  close(std::exchange(fd_, -1));
  buffer_.reset();
  if (const int error_number = SyncDirectory(DirectoryOf(path_)); error_number != 0) {
    return ErrnoStatus(error_number, Concat(path_,
                                            ": is written, but its directory cannot be "
                                            "synced and may forget it in a power cut"));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Fail(int error_number, std::string_view what) {
  failure_ = ErrnoStatus(error_number, Concat(path_, ": ", what));
  return failure_;
}

}  // namespace outrider
