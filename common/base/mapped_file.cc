#include "common/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK means nothing to a regular file; without it, opening a pipe would wait for its
  // writer.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return ErrnoStatus(errno, Concat(path, ": cannot open"));
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return InvalidArgument(path, ": is not a regular file");
  }
  if (info.st_size == 0) return MappedFile(path, nullptr, 0);
  const auto size = static_cast<size_t>(info.st_size);
  // The mapping keeps the file open by itself.
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, Concat(path, ": cannot map ", size, " bytes"));
  return MappedFile(path, static_cast<const std::byte*>(data), size);
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

}  // namespace outrider
