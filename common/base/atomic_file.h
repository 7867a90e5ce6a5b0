// A file that appears under its name complete, or not at all.
//
//   OUTRIDER_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create("model.gguf"));
//   OUTRIDER_RETURN_IF_ERROR(out.Append(header));   // pieces of any size, buffered
//   OUTRIDER_RETURN_IF_ERROR(out.Append(weights));
//   return out.Commit();
//
// Bytes go to "<path>.<pid>.partial" beside the target, so that the final rename never crosses file
// systems. Commit() syncs that file, renames it over the target and syncs the directory: after a
// power cut there is the old file or the new one. Without Commit() the destructor removes the
// partial file; only a killed process leaves one behind, and its name says whose it was. Whoever
// writes the same file next removes such orphans; a later process of the same id (in a container
// every process may be number 1) takes one over, while a partial file that is still being written
// is refused: the writer holds a lock on it.
//
// Threads: one at a time.
// Memory:  one buffer of 256 KiB; larger pieces are written straight from the caller's.
// Errors:  the first failure is final: every later Append() and Commit() repeats it, so a writer
//          may look at the Status of Commit() alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"

namespace outrider {

class AtomicFile {
 public:
  // A target that exists must be a regular file; a symbolic link is itself replaced.
  static absl::StatusOr<AtomicFile> Create(std::string path);

  AtomicFile(AtomicFile&& other) noexcept = default;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  absl::Status Append(std::span<const std::byte> bytes);
  absl::Status Append(std::string_view text);

  // Bytes appended before, from `offset` on, become others.
  absl::Status Overwrite(uint64_t offset, std::span<const std::byte> bytes);

  // Once, after the last Append().
  absl::Status Commit();

  // Bytes appended so far.
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, std::string partial_path, FileDescriptor file);

  absl::Status Flush();
  absl::Status WriteThrough(std::span<const std::byte> bytes);
  absl::Status Fail(int error_number, std::string_view what);

  std::string path_;
  std::string partial_path_;
  FileDescriptor file_;  // the partial file; none when committed or moved from
  uint64_t size_ = 0;    // appended, of which
  size_t buffered_ = 0;  // the last so many are still in
  std::unique_ptr<std::byte[]> buffer_;
  absl::Status failure_;  // of the first thing that failed
};

// All of it in one go.
absl::Status WriteAtomically(const std::string& path, std::string_view text);

}  // namespace outrider
