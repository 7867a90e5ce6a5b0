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
  const size_t page_size = PageSize();
  if (bytes > SIZE_MAX - page_size) return NoMemory(bytes);
  const size_t size = (bytes + page_size - 1) / page_size * page_size;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return NoMemory(bytes);
  return PageBuffer(static_cast<std::byte*>(data), size);
}

}  // namespace outrider
