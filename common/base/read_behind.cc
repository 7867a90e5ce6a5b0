#include "common/base/read_behind.h"

#include <fcntl.h>

#include <utility>

#include "common/base/buffer.h"

namespace outrider {

ReadBehind::ReadBehind(FileDescriptor file) : file_(std::move(file)) {
  // What is read ahead comes in pieces of many pages, of which the kernel gives none back in part.
  posix_fadvise(file_.get(), 0, 0, POSIX_FADV_RANDOM);
  ranges_.reserve(kRangesMax);
}

ReadBehind::~ReadBehind() {
  GiveBack();
}

void ReadBehind::Add(uint64_t offset, uint64_t length) {
  if (length == 0) return;  // to the kernel that is all of the file
  ranges_.push_back({offset, length});
  bytes_ += length;
  if (bytes_ >= kWindowBytes || ranges_.size() == kRangesMax) GiveBack();
}

// Whole pages, those that a neighbour shares as well: the kernel leaves parts of pages where they are.
void ReadBehind::GiveBack() {
  const uint64_t page = PageBuffer::PageSize();
  for (const Range& range : ranges_) {
    const uint64_t begin = range.offset / page * page;
    const uint64_t end = RoundUp(range.offset + range.length, page);
    posix_fadvise(file_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                  POSIX_FADV_DONTNEED);
  }
  ranges_.clear();
  bytes_ = 0;
}

void GiveBackFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.is_open()) posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace outrider
