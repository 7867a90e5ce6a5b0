// A file mapped read-only: its bytes as if they were memory, paged in when touched.
//
// For metadata and for reading a model once; weights that have to arrive on time come through
// DirectFile. The bytes of a file that another process has shortened, or that its disk cannot read,
// are a signal to whoever touches them (SIGBUS): they are copied out, by Copy() or by ReadMapped(),
// before anybody looks at them. What is small and read whole is not mapped at all: ReadWholeFile().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace outrider {

class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // The bytes from `offset` on into `out`, which lie in the file as it was opened. DataLoss when they
  // cannot be had any more: "model.gguf: <what> cannot be read at offset 4096: ...".
  absl::Status Copy(uint64_t offset, std::span<std::byte> out, std::string_view what) const;

  // Lets go of the memory that the pages of `part`, a piece of some file's bytes(), occupy in this
  // process. They can be read again, from the page cache or the disk. Reading a model once, piece
  // by piece, then needs no memory of the model's size.
  static void Forget(std::span<const std::byte> part);

 private:
  MappedFile(std::string path, const std::byte* data, size_t size);

  std::string path_;
  const std::byte* data_ = nullptr;  // null for an empty file: there is nothing to map
  size_t size_ = 0;
};

// A regular file's text, by plain reads. What is shorter than it was when it was opened is read as far
// as it goes: that it ends too soon is for whoever parses it to say.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace outrider
