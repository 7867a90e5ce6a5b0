// Reads a file and does nothing with it: what passes on flash are held against.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/direct_file.h"

namespace outrider {

class PlainReader {
 public:
  static absl::StatusOr<std::unique_ptr<PlainReader>> Open(const std::string& path);

  // So many bytes, from the file's beginning again when it ends: a mebibyte at a time, four in flight.
  absl::Status Read(uint64_t bytes);

 private:
  PlainReader() = default;

  PageBuffer memory_;  // before the file that reads into it
  std::unique_ptr<DirectFile> file_;
};

}  // namespace outrider
