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
  void* const pages = reinterpret_cast<void*>(begin);
  // Of large pages: else the kernel makes one again of what is left and of this.
  madvise(pages, end - begin, MADV_NOHUGEPAGE);
  return madvise(pages, end - begin, MADV_DONTNEED) == 0 ? end - begin : 0;
}

}  // namespace outrider
