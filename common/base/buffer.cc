#include "common/base/buffer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "common/base/status.h"

namespace outrider {
namespace {

absl::Status NoMemory(size_t bytes) {
  return ResourceExhausted("the machine has no ", bytes, " bytes of memory to give");
}

// Null: there is no room.
std::byte* Map(size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

void buffer_internal::Free(std::byte* data, size_t) {
  free(data);
}

void buffer_internal::Unmap(std::byte* data, size_t size) {
  munmap(data, size);
}

absl::StatusOr<AlignedBuffer> AlignedBuffer::Create(size_t bytes, size_t alignment) {
  OUTRIDER_CHECK(std::has_single_bit(alignment), "an alignment is a power of two");
  if (bytes == 0) return AlignedBuffer();
  void* data = nullptr;
  if (posix_memalign(&data, std::max(alignment, kVectorAlignment), bytes) != 0) {
    return NoMemory(bytes);
  }
  std::memset(data, 0, bytes);
  return AlignedBuffer(static_cast<std::byte*>(data), bytes);
}

size_t PageBuffer::PageSize() {
  static const auto page_size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return page_size;
}

absl::StatusOr<PageBuffer> PageBuffer::Create(size_t bytes) {
  if (bytes == 0) return PageBuffer();
  if (bytes > SIZE_MAX - PageSize()) return NoMemory(bytes);
  const size_t size = RoundUp(bytes, PageSize());
  std::byte* const data = Map(size);
  if (data == nullptr) return NoMemory(bytes);
  return PageBuffer(data, size);
}

absl::StatusOr<PageBuffer> PageBuffer::CreateLarge(size_t bytes) {
  if (bytes == 0) return PageBuffer();
  if (bytes > SIZE_MAX - 2 * kLargePage) return NoMemory(bytes);
  const size_t size = RoundUp(bytes, PageSize());
  std::byte* const mapped = Map(size + kLargePage);
  if (mapped == nullptr) return NoMemory(bytes);
  // What lies before a large page's beginning, and the rest, go back.
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(mapped), kLargePage) -
                        reinterpret_cast<uintptr_t>(mapped);
  if (before > 0) munmap(mapped, before);
  if (before < kLargePage) munmap(mapped + before + size, kLargePage - before);
  madvise(mapped + before, size, MADV_HUGEPAGE);  // a kernel without them has small ones
  return PageBuffer(mapped + before, size);
}

}  // namespace outrider
