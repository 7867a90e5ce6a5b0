// What reads of a file leave in the page cache, given back behind them: who reads a file larger than memory
// over and over finds nothing there, and pushes out what others would.
//
//   ReadBehind behind(std::move(descriptor));
//   ... pread() ...
//   behind.Add(offset, length);      // has been read, and copied out
//
// Every so often, since the kernel may have to ask all processors for it: kWindowBytes stay at the most. It is
// advice: what another process has mapped, or has written and not yet to the disk, stays.
//
// Threads: one at a time.
// Memory:  a kilobyte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/file_descriptor.h"

namespace outrider {

class ReadBehind {
 public:
  static constexpr uint64_t kWindowBytes = 1 << 20;

  // From now on nothing is read ahead through this descriptor and those that it was made from.
  explicit ReadBehind(FileDescriptor file);
  ~ReadBehind();  // nothing stays
  ReadBehind(const ReadBehind&) = delete;
  ReadBehind& operator=(const ReadBehind&) = delete;

  void Add(uint64_t offset, uint64_t length);

 private:
  struct Range {
    uint64_t offset;
    uint64_t length;
  };
  static constexpr size_t kRangesMax = 64;  // rows that are looked up are small

  void GiveBack();

  const FileDescriptor file_;
  std::vector<Range> ranges_;  // at most kRangesMax
  uint64_t bytes_ = 0;         // of those
};

// Likewise all of a file that was read once. One that cannot be opened has given back nothing.
void GiveBackFile(const std::string& path);

}  // namespace outrider
