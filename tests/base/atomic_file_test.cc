#include "common/base/atomic_file.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/child_process.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string PartialName(const std::string& name) {
  return name + "." + std::to_string(getpid()) + ".partial";
}

TEST(AtomicFile, AppearsUnderItsNameOnlyWhenCommitted) {
  const ScratchDir dir;
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("out"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Append("hello ").ok());
  EXPECT_TRUE(file->Append("world").ok());
  EXPECT_EQ(file->size(), 11u);
  EXPECT_THAT(dir.Names(), ElementsAre(PartialName("out")));
  EXPECT_TRUE(file->Commit().ok());
  EXPECT_THAT(dir.Names(), ElementsAre("out"));
  EXPECT_EQ(Contents(dir.File("out")), "hello world");
}

TEST(AtomicFile, PiecesOfEverySizeArriveInOrder) {
  const ScratchDir dir;
  constexpr size_t kBuffer = 256 * 1024;
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("out"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::string expected;
  for (const size_t size : {size_t{0}, size_t{1}, kBuffer - 1, size_t{1}, kBuffer, kBuffer + 1,
                            size_t{7}, 3 * kBuffer, size_t{0}, kBuffer - 7, size_t{3}}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    ASSERT_TRUE(file->Append(piece).ok());
    expected += piece;
    ASSERT_EQ(file->size(), expected.size());
  }
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_TRUE(Contents(dir.File("out")) == expected);
}

TEST(AtomicFile, AnEmptyFileIsAFile) {
  const ScratchDir dir;
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("out"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Commit().ok());
  EXPECT_THAT(dir.Names(), ElementsAre("out"));
  EXPECT_EQ(Contents(dir.File("out")), "");
}

TEST(AtomicFile, AbandonedLeavesTheOldFileAndNothingElse) {
  const ScratchDir dir;
  dir.Write("out", "old");
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("out"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->Append("new").ok());
  }
  EXPECT_THAT(dir.Names(), ElementsAre("out"));
  EXPECT_EQ(Contents(dir.File("out")), "old");
}

TEST(AtomicFile, CommittedReplacesTheOldFile) {
  const ScratchDir dir;
  dir.Write("out", "old and longer");
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("out"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Append("new").ok());
  EXPECT_TRUE(file->Commit().ok());
  EXPECT_EQ(Contents(dir.File("out")), "new");
}

TEST(AtomicFile, MovesWithItsPartialFile) {
  const ScratchDir dir;
  {
    absl::StatusOr<AtomicFile> first = AtomicFile::Create(dir.File("first"));
    absl::StatusOr<AtomicFile> second = AtomicFile::Create(dir.File("second"));
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_TRUE(first->Append("1").ok());
    EXPECT_TRUE(second->Append("2").ok());
    AtomicFile moved = *std::move(first);
    moved = *std::move(second);
    EXPECT_EQ(moved.path(), dir.File("second"));
    EXPECT_TRUE(moved.Commit().ok());
  }
  EXPECT_THAT(dir.Names(), ElementsAre("second"));
  EXPECT_EQ(Contents(dir.File("second")), "2");
}

TEST(AtomicFile, TwoWritersOfOneFileAreRefused) {
  const ScratchDir dir;
  absl::StatusOr<AtomicFile> first = AtomicFile::Create(dir.File("out"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->Append("first").ok());
  const absl::Status second = AtomicFile::Create(dir.File("out")).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(second), HasSubstr("is being written already"));
  EXPECT_TRUE(first->Commit().ok());
  EXPECT_EQ(Contents(dir.File("out")), "first");
}

TEST(AtomicFile, AnOrphanOfTheSameProcessIdIsTakenOver) {
  const ScratchDir dir;
  dir.Write(PartialName("out"), "left by a process that was killed");
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("out"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Append("new").ok());
  EXPECT_TRUE(file->Commit().ok());
  EXPECT_THAT(dir.Names(), ElementsAre("out"));
  EXPECT_EQ(Contents(dir.File("out")), "new");
}

TEST(AtomicFile, OrphansOfOtherProcessesAreRemovedByTheNextWriter) {
  const ScratchDir dir;
  dir.Write("out.99999.partial", "left by a process that was killed");
  dir.Write("out.1.partial", "of a writer that has just begun");
  dir.Write("out.x.partial", "no name of ours");
  dir.Write("other.99999.partial", "of another file");
  dir.Write("out.77777.partial", "being written");
  const FileDescriptor writer(open(dir.File("out.77777.partial").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(flock(writer.get(), LOCK_EX), 0);
  const timespec hour_ago[2] = {{time(nullptr) - 3600, 0}, {time(nullptr) - 3600, 0}};
  for (const char* name :
       {"out.99999.partial", "out.x.partial", "other.99999.partial", "out.77777.partial"}) {
    ASSERT_EQ(utimensat(AT_FDCWD, dir.File(name).c_str(), hour_ago, 0), 0);
  }
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("out"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Commit().ok());
  EXPECT_THAT(dir.Names(), UnorderedElementsAre("out", "out.1.partial", "out.x.partial",
                                                "other.99999.partial", "out.77777.partial"));
}

TEST(AtomicFile, TargetsThatCannotBeWrittenAreRefusedAtOnce) {
  const ScratchDir dir;
  EXPECT_EQ(AtomicFile::Create("").status(),
            InvalidArgument("the path of the file to write is empty"));
  EXPECT_EQ(AtomicFile::Create(dir.path()).status(),
            InvalidArgument(dir.path(), ": is not a regular file and cannot be replaced by one"));
  EXPECT_EQ(AtomicFile::Create("/dev/null").status(),
            InvalidArgument("/dev/null: is not a regular file and cannot be replaced by one"));

  const std::string lost = dir.File("no/such/out");
  EXPECT_EQ(AtomicFile::Create(lost).status(),
            NotFound(lost, ": cannot be written to the directory \"", dir.File("no/such"),
                     "\": No such file or directory"));

  const std::string below_file = dir.Write("file", "x") + "/out";
  EXPECT_EQ(AtomicFile::Create(below_file).status(),
            InvalidArgument(below_file, ": cannot be written, \"", dir.File("file"),
                            "\" is not a directory"));

  const std::string long_name = dir.File(std::string(250, 'n'));
  EXPECT_THAT(Message(AtomicFile::Create(long_name).status()), HasSubstr("File name too long"));
  EXPECT_THAT(dir.Names(), ElementsAre("file"));
}

TEST(AtomicFile, ADirectoryTakenAwayIsAnError) {
  const ScratchDir dir;
  std::filesystem::create_directory(dir.File("gone"));
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(dir.File("gone/out"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::remove_all(dir.File("gone"));
  const absl::Status status = file->Commit();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), HasSubstr("gone/out: cannot rename "));
  EXPECT_EQ(file->Commit(), status);
}

// Writes 1 MiB to `path`, where less fits; 0 when that failed once, as it should, and for good.
int FailToWriteAMebibyte(const std::string& path, const std::string& reason) {
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) return 10;
  absl::Status status;
  for (int i = 0; i < 16 && status.ok(); ++i) status = file->Append(std::string(64 * 1024, 'x'));
  if (status.ok()) status = file->Commit();
  if (status.code() != absl::StatusCode::kResourceExhausted) return 11;
  if (!Message(status).ends_with(reason)) return 12;
  if (!Message(status).starts_with(path)) return 13;
  if (file->Append("more") != status || file->Commit() != status) return 14;
  return 0;
}

TEST(AtomicFile, AFileBeyondTheProcessLimitIsAnErrorForGood) {
  const ScratchDir dir;
  EXPECT_EQ(ExitCodeOfChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit = {.rlim_cur = 300'000, .rlim_max = 300'000};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              return FailToWriteAMebibyte(dir.File("out"), "File too large");
            }),
            0);
  EXPECT_THAT(dir.Names(), IsEmpty());
}

// A file system of our own, which needs a mount namespace of our own; `options` as mount(8) takes
// them. False where the machine does not allow it.
bool MountTmpfs(const std::string& path, unsigned long flags, const char* options) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("outrider_test", path.c_str(), "tmpfs", flags, options) == 0;
}

TEST(AtomicFile, AFullFileSystemIsAnErrorForGood) {
  const ScratchDir dir;
  const int code = ExitCodeOfChild([&] {
    if (!MountTmpfs(dir.path(), 0, "size=512k")) return kNotAllowed;
    if (const int wrong = FailToWriteAMebibyte(dir.File("out"), "No space left on device")) {
      return wrong;
    }
    return dir.Names().empty() ? 0 : 20;
  });
  if (code == kNotAllowed) GTEST_SKIP() << "this machine does not let a test mount a small tmpfs";
  EXPECT_EQ(code, 0);
}

TEST(AtomicFile, AReadOnlyFileSystemIsRefusedAtOnce) {
  const ScratchDir dir;
  const int code = ExitCodeOfChild([&] {
    if (!MountTmpfs(dir.path(), MS_RDONLY, nullptr)) return kNotAllowed;
    const absl::Status status = AtomicFile::Create(dir.File("out")).status();
    if (status.code() != absl::StatusCode::kPermissionDenied) return 1;
    return Message(status).ends_with("Read-only file system") ? 0 : 2;
  });
  if (code == kNotAllowed) GTEST_SKIP() << "this machine does not let a test mount a tmpfs";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace outrider
