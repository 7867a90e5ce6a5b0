#include "common/base/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

namespace {

struct RegularFile {
  FileDescriptor file;
  uint64_t size;
};

absl::StatusOr<RegularFile> OpenRegular(const std::string& path) {
  // O_NONBLOCK means nothing to a regular file; without it, opening a pipe would wait for its
  // writer.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return ErrnoStatus(errno, Concat(path, ": cannot open"));
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return InvalidArgument(path, ": is not a regular file");
  }
  return RegularFile{std::move(file), static_cast<uint64_t>(info.st_size)};
}

// How far a read came, and why no further: the file ended where there is no error.
struct Progress {
  size_t filled = 0;
  int error = 0;
};

Progress ReadFully(int file, uint64_t offset, std::span<std::byte> out) {
  Progress at;
  while (at.filled < out.size()) {
    const ssize_t count = pread(file, out.data() + at.filled, out.size() - at.filled,
                                static_cast<off_t>(offset + at.filled));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) at.error = errno;
    if (count <= 0) break;
    at.filled += static_cast<size_t>(count);
  }
  return at;
}

}  // namespace

absl::StatusOr<PlainFile> PlainFile::Open(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(RegularFile regular, OpenRegular(path));
  return PlainFile(path, std::move(regular.file), regular.size);
}

absl::Status PlainFile::Read(uint64_t offset, std::span<std::byte> out,
                             std::string_view what) const {
  OUTRIDER_CHECK(offset <= size_ && out.size() <= size_ - offset, "what is read lies in the file");
  const Progress at = ReadFully(file_.get(), offset, out);
  if (at.filled == out.size()) return absl::OkStatus();
  const std::string where =
      Concat(path_, ": ", what, " cannot be read at offset ", offset + at.filled);
  if (at.error == 0) return DataLoss(where, ": the file has become shorter");
  return DataLoss(Message(ErrnoStatus(at.error, where)));
}

PlainFile::PlainFile(std::string path, FileDescriptor file, uint64_t size)
    : path_(std::move(path)), file_(std::move(file)), size_(size) {}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const RegularFile regular, OpenRegular(path));
  std::string text(regular.size, '\0');
  const Progress at = ReadFully(regular.file.get(), 0, std::as_writable_bytes(std::span(text)));
  if (at.error != 0) {
    return ErrnoStatus(at.error, Concat(path, ": cannot be read at offset ", at.filled));
  }
  text.resize(at.filled);
  return text;
}

}  // namespace outrider
