// Notices that somebody writes into a file that is being used: what was read of it before and what
// is read after would not be of one file. One that takes its name, as whoever replaces files
// properly has it, is another file, and no matter of this one.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const FileWatch watch, FileWatch::Open(path));
//   ...
//   OUTRIDER_RETURN_IF_ERROR(watch.Check());     // a system call, of a microsecond or less
//
// Threads: any may check.
// Errors:  DataLoss, naming the file.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"

namespace outrider {

class FileWatch {
 public:
  static absl::StatusOr<FileWatch> Open(const std::string& path);

  absl::Status Check() const;

 private:
  struct Seen {
    int64_t bytes;
    timespec written;
  };

  FileWatch(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::StatusOr<Seen> Look() const;

  std::string path_;
  FileDescriptor file_;  // of what the name stood for when it was opened
  Seen seen_ = {};
};

}  // namespace outrider
