#include "common/base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
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

// Whether `path` is a partial file that nobody writes any more: a writer locks it at once, so one
// that is old and not locked is what a killed process has left.
bool IsAbandoned(const std::string& path) {
  constexpr time_t kSecondsBetweenOpenAndLock = 10;
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!file.is_open() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (time(nullptr) - info.st_mtime < kSecondsBetweenOpenAndLock) return false;
  return flock(file.get(), LOCK_SH | LOCK_NB) == 0;
}

// What killed processes have left of the file `path`.
void RemoveAbandoned(const std::string& path) {
  const std::string front = std::filesystem::path(path).filename().string() + ".";
  constexpr std::string_view kEnd = ".partial";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(DirectoryOf(path), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(front) || !name.ends_with(kEnd)) continue;
    if (name.size() <= front.size() + kEnd.size()) continue;
    const std::string_view number =
        std::string_view(name).substr(front.size(), name.size() - front.size() - kEnd.size());
    if (number.find_first_not_of("0123456789") != std::string_view::npos) continue;
    if (IsAbandoned(entry.path().string())) std::filesystem::remove(entry.path(), ignored);
  }
}

// The partial file, locked and empty.
absl::StatusOr<FileDescriptor> OpenPartial(const std::string& path,
                                           const std::string& partial_path) {
  for (;;) {
    FileDescriptor file(
        open(partial_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.is_open()) {
      return ErrnoStatus(errno, Concat(path, ": cannot create ", partial_path, " to write it"));
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      return absl::AlreadyExistsError(
          Concat(path, ": is being written already, through ", partial_path));
    }
    // Between open() and flock() the file's previous writer may have renamed it into place;
    // emptying it now would empty a finished file.
    if (!IsFileNamed(file.get(), partial_path)) continue;
    if (ftruncate(file.get(), 0) != 0) {
      return ErrnoStatus(errno, Concat(path, ": cannot empty ", partial_path));
    }
    return file;
  }
}

// 0 or errno. File systems that cannot sync a directory say EINVAL; the rename itself has happened.
int SyncDirectory(const std::string& path) {
  const FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return errno;
  return fsync(directory.get()) == 0 || errno == EINVAL ? 0 : errno;
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(std::string path) {
  OUTRIDER_RETURN_IF_ERROR(CheckTarget(path));
  RemoveAbandoned(path);
  std::string partial_path = Concat(path, ".", getpid(), ".partial");
  OUTRIDER_ASSIGN_OR_RETURN(FileDescriptor file, OpenPartial(path, partial_path));
  return AtomicFile(std::move(path), std::move(partial_path), std::move(file));
}

AtomicFile::AtomicFile(std::string path, std::string partial_path, FileDescriptor file)
    : path_(std::move(path)),
      partial_path_(std::move(partial_path)),
      file_(std::move(file)),
      buffer_(new std::byte[kBufferBytes]) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  AtomicFile taken(std::move(other));  // what we were writing is abandoned here, not with `other`
  std::swap(path_, taken.path_);
  std::swap(partial_path_, taken.partial_path_);
  std::swap(file_, taken.file_);
  std::swap(size_, taken.size_);
  std::swap(buffered_, taken.buffered_);
  std::swap(buffer_, taken.buffer_);
  std::swap(failure_, taken.failure_);
  return *this;
}

AtomicFile::~AtomicFile() {
  // Before the file is closed, which gives up the lock.
  if (file_.is_open()) unlink(partial_path_.c_str());
}

absl::Status AtomicFile::Append(std::string_view text) {
  return Append(std::as_bytes(std::span(text)));
}

absl::Status AtomicFile::Append(std::span<const std::byte> bytes) {
  OUTRIDER_CHECK(file_.is_open(), "nothing is appended to a file after its Commit()");
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
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Fail(errno, Concat("cannot write the last ", bytes.size(), " of ", size_, " bytes"));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  OUTRIDER_CHECK(file_.is_open() && offset + bytes.size() <= size_, "what is there is overwritten");
  OUTRIDER_RETURN_IF_ERROR(failure_);
  OUTRIDER_RETURN_IF_ERROR(Flush());
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return Fail(errno, Concat("cannot overwrite ", bytes.size(), " bytes at ", offset));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  OUTRIDER_CHECK(file_.is_open(), "a file is committed once");
  OUTRIDER_RETURN_IF_ERROR(failure_);
  OUTRIDER_RETURN_IF_ERROR(Flush());
  if (fsync(file_.get()) != 0)
    return Fail(errno, Concat("cannot sync its ", size_, " bytes to storage"));
  if (rename(partial_path_.c_str(), path_.c_str()) != 0) {
    return Fail(errno, Concat("cannot rename ", partial_path_, " to it"));
  }
  file_ = FileDescriptor();
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

absl::Status WriteAtomically(const std::string& path, std::string_view text) {
  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  OUTRIDER_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

}  // namespace outrider
