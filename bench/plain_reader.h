// Reads a file and does nothing with it: what passes on flash are held against.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/direct_file.h"

namespace outrider {

class PlainReader {
 public:
  // Reads into so much memory, over and over. As little as is in flight stays in a processor's cache,
  // and where a disk is a copy in memory, as a virtual machine's is, that is faster than any memory that
  // holds what was read.
  static absl::StatusOr<std::unique_ptr<PlainReader>> Open(const std::string& path,
                                                           uint64_t memory_bytes = 0);

  // So many bytes, from the file's beginning again when it ends: a mebibyte at a time, four in flight.
  absl::Status Read(uint64_t bytes);

 private:
  PlainReader() = default;

  PageBuffer memory_;  // before the file that reads into it
  std::deque<uint64_t> free_places_;
  std::unique_ptr<DirectFile> file_;
};

}  // namespace outrider
