// A regular file, read by plain reads, which can fail: a file that another process has shortened, or
// whose disk fails, is an error of the read that meets it. (A mapping of it would make that a signal to
// whoever touches the page.)
//
//   OUTRIDER_ASSIGN_OR_RETURN(PlainFile file, PlainFile::Open("model.gguf"));
//   OUTRIDER_RETURN_IF_ERROR(file.Read(4096, memory, "tensor output.weight"));
//
// For metadata and for reading a model once, through the page cache; weights that have to arrive on
// time come through DirectFile. What is small and read whole: ReadWholeFile().
//
// Threads: any, several at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"

namespace outrider {

class PlainFile {
 public:
  static absl::StatusOr<PlainFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when opened

  // The bytes from `offset` on into `out`, which lie in the file as it was opened. DataLoss when they
  // cannot be had any more: "model.gguf: <what> cannot be read at offset 4096: ...".
  absl::Status Read(uint64_t offset, std::span<std::byte> out, std::string_view what) const;

 private:
  PlainFile(std::string path, FileDescriptor file, uint64_t size);

  std::string path_;
  FileDescriptor file_;
  uint64_t size_;
};

// A regular file's text. What is shorter than it was when it was opened is read as far as it goes:
// that it ends too soon is for whoever parses it to say.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace outrider
