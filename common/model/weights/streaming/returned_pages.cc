#include "common/model/weights/streaming/returned_pages.h"

#include <sys/mman.h>

#include <cstdint>

#include "common/base/buffer.h"

namespace outrider {

size_t ReturnPages(std::span<std::byte> memory) {
  const size_t page = PageBuffer::PageSize();
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t begin = RoundUp(address, page);
  const uintptr_t end = (address + memory.size()) / page * page;
  if (begin >= end) return 0;
  const bool is_done = madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) == 0;
  return is_done ? end - begin : 0;
}

}  // namespace outrider
