#include "common/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/mapped_read.h"
#include "common/base/status.h"

namespace outrider {

namespace {

struct RegularFile {
  FileDescriptor file;
  size_t size;
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
  return RegularFile{std::move(file), static_cast<size_t>(info.st_size)};
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const RegularFile regular, OpenRegular(path));
  const size_t size = regular.size;
  if (size == 0) return MappedFile(path, nullptr, 0);
  // The mapping keeps the file open by itself.
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, regular.file.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, Concat(path, ": cannot map ", size, " bytes"));
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

absl::Status MappedFile::Copy(uint64_t offset, std::span<std::byte> out,
                              std::string_view what) const {
  OUTRIDER_CHECK(offset <= size_ && out.size() <= size_ - offset,
                 "what is copied lies in the file");
  if (out.empty()) return absl::OkStatus();
  const std::byte* const from = data_ + offset;
  const auto lost = ReadMapped([&] { std::memcpy(out.data(), from, out.size()); });
  if (!lost) return absl::OkStatus();
  // The fault may be said to be at the beginning of its page.
  return DataLoss(path_, ": ", what, " cannot be read at offset ",
                  static_cast<uint64_t>(std::max(*lost, from) - data_),
                  ": the file has become shorter, or its disk fails");
}

void MappedFile::Forget(std::span<const std::byte> part) {
  if (part.empty()) return;
  // Whole pages: those that a neighbour shares are read again when it needs them.
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page_bytes * page_bytes;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  // Advice: where it is not taken, the pages stay, and nothing else is lost.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(std::string path, const std::byte* data, size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  MappedFile taken(std::move(other));  // what we held is unmapped here, not when `other` goes
  std::swap(path_, taken.path_);
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const RegularFile regular, OpenRegular(path));
  std::string text(regular.size, '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count = read(regular.file.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, Concat(path, ": cannot be read at offset ", filled));
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  text.resize(filled);
  return text;
}

}  // namespace outrider
