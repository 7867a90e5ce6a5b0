#include "common/base/file_watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<FileWatch> FileWatch::Open(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file.is_open()) return ErrnoStatus(errno, Concat(path, ": cannot open"));
  FileWatch watch(path, std::move(file));
  OUTRIDER_ASSIGN_OR_RETURN(watch.seen_, watch.Look());
  return watch;
}

absl::StatusOr<FileWatch::Seen> FileWatch::Look() const {
  struct stat info;
  if (fstat(file_.get(), &info) != 0) return ErrnoStatus(errno, Concat(path_, ": cannot look at"));
  return Seen{info.st_size, info.st_mtim};
}

absl::Status FileWatch::Check() const {
  OUTRIDER_ASSIGN_OR_RETURN(const Seen now, Look());
  if (now.bytes < seen_.bytes) {
    return DataLoss(path_, ": has become shorter, from ", seen_.bytes, " bytes to ", now.bytes,
                    ", while it was used; start again with a whole one");
  }
  if (now.written.tv_sec == seen_.written.tv_sec && now.written.tv_nsec == seen_.written.tv_nsec) {
    return absl::OkStatus();
  }
  return DataLoss(path_,
                  ": was written to while it was used, and may be another model now; start again "
                  "(and replace a file by renaming another one, which disturbs nobody)");
}

}  // namespace outrider
