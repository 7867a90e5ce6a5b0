// What of a file lies in the page cache, as the kernel says it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/file_descriptor.h"

namespace outrider {

inline uint64_t CachedBytes(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const size_t size = std::filesystem::file_size(path);
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  OUTRIDER_CHECK(mapped != MAP_FAILED, "the test's file can be mapped");
  const uint64_t page_bytes = PageBuffer::PageSize();
  std::vector<unsigned char> pages(RoundUp(size, page_bytes) / page_bytes);
  OUTRIDER_CHECK(mincore(mapped, size, pages.data()) == 0, "the kernel says what is there");
  munmap(mapped, size);
  const auto count = std::ranges::count_if(pages, [](unsigned char page) { return page & 1; });
  return page_bytes * static_cast<uint64_t>(count);
}

// From now on it is on the disk alone. False: this file system has all of its files in memory.
inline bool Cool(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  OUTRIDER_CHECK(fsync(file.get()) == 0, "the test's file can be written");
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return CachedBytes(path) == 0;
}

}  // namespace outrider
