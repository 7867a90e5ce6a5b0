#include "common/base/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/base/child_process.h"
#include "tests/base/page_cache.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

std::string RandomBytes(size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

PageBuffer Memory(size_t bytes) {
  absl::StatusOr<PageBuffer> memory = PageBuffer::Create(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
  // Not the zeros it came with, so that whoever forgets to write is seen.
  std::fill(memory->bytes().begin(), memory->bytes().end(), std::byte{0xee});
  return *std::move(memory);
}

struct Backend {
  const char* test_name;
  const char* name;
  bool direct;
  bool io_uring;

  friend void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.test_name; }
};

class DirectFileOn : public ::testing::TestWithParam<Backend> {
 protected:
  std::unique_ptr<DirectFile> Open(const std::string& path, uint32_t queue_depth = 4) {
    absl::StatusOr<std::unique_ptr<DirectFile>> file = DirectFile::Open(
        path,
        {.queue_depth = queue_depth, .direct = GetParam().direct, .io_uring = GetParam().io_uring});
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  const ScratchDir dir_;
};

INSTANTIATE_TEST_SUITE_P(
    Backends, DirectFileOn,
    ::testing::Values(Backend{"UringDirect", "io_uring + O_DIRECT", true, true},
                      Backend{"PreadDirect", "pread + O_DIRECT", true, false},
                      Backend{"UringBuffered", "io_uring, buffered", false, true},
                      Backend{"PreadBuffered", "pread, buffered", false, false}),
    [](const auto& backend) { return backend.param.test_name; });

TEST_P(DirectFileOn, IsWhatWasAskedForWhereTheMachineAllowsIt) {
  const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", RandomBytes(100'000)));
  if (file->backend() != GetParam().name) {
    GTEST_SKIP() << "this machine allows " << file->backend() << ", but refuses "
                 << ::testing::PrintToString(file->refusals());
  }
  EXPECT_THAT(file->refusals(), IsEmpty());
}

TEST_P(DirectFileOn, ReadsTheBytesOfTheFileAtAnyOffsetAndSize) {
  const std::string contents = RandomBytes(1'000'123);
  const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", contents));
  EXPECT_EQ(file->size(), contents.size());
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random() % (contents.size() + 1);
    const size_t size = std::min<size_t>(contents.size() - offset, random() % (1u << (i % 21)));
    std::vector<std::byte> out(size);
    const absl::Status status = file->Read(offset, out);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(Text(out) == contents.substr(offset, size)) << size << " bytes at " << offset;
  }
}

TEST_P(DirectFileOn, FilesOfAwkwardSizesAreReadWhole) {
  for (const size_t size : {0, 1, 511, 512, 4095, 4096, 4097, 65'537, 262'144, 262'145}) {
    const std::string contents = RandomBytes(size);
    const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", contents));
    std::vector<std::byte> out(size);
    const absl::Status status = file->Read(0, out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(Text(out) == contents) << size;
  }
}

TEST_P(DirectFileOn, ManyReadsInFlightEachBringTheirOwnBytes) {
  constexpr uint32_t kDepth = 16;
  constexpr size_t kReadBytes = 128 * 1024;
  const std::string contents = RandomBytes(3'000'321);
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);

  struct Pending {
    PageBuffer memory;
    DirectFile::Extent extent;
    uint64_t offset;
    uint64_t length;
  };
  std::vector<Pending> pending(kDepth);
  const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", contents), kDepth);
  const auto submit = [&](uint64_t tag) {
    Pending& read = pending[tag];
    read.offset = random() % contents.size();
    read.length = std::min<uint64_t>(contents.size() - read.offset, random() % kReadBytes);
    read.extent = file->ExtentOf(read.offset, read.length);
    ASSERT_LE(read.extent.length, read.memory.bytes().size());
    const absl::Status status =
        file->SubmitRead(read.extent.offset, read.memory.bytes().first(read.extent.length), tag);
    ASSERT_TRUE(status.ok()) << status;
  };

  for (uint64_t tag = 0; tag < kDepth; ++tag) {
    pending[tag].memory = Memory(kReadBytes + 2 * file->alignment());
    submit(tag);
  }
  EXPECT_EQ(file->in_flight(), kDepth);
  for (int completions = 0; completions < 300; ++completions) {
    const DirectFile::Completion done = file->WaitCompletion();
    ASSERT_TRUE(done.status.ok()) << done.status;
    const Pending& read = pending[done.tag];
    ASSERT_TRUE(Text(read.memory.bytes().subspan(read.extent.skip, read.length)) ==
                contents.substr(read.offset, read.length));
    submit(done.tag);
  }
}

TEST_P(DirectFileOn, OneReadBeyondTheQueueDepthIsRefused) {
  PageBuffer memory = Memory(3 * 4096);
  const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", RandomBytes(8192)), 2);
  const auto block = [&](size_t i) { return memory.bytes().subspan(i * 4096, 4096); };
  EXPECT_TRUE(file->SubmitRead(0, block(0), 10).ok());
  EXPECT_TRUE(file->SubmitRead(4096, block(1), 11).ok());
  EXPECT_EQ(file->SubmitRead(0, block(2), 12),
            ResourceExhausted(dir_.File("in"), ": has all of 2 reads in flight"));
  const uint64_t first = file->WaitCompletion().tag;
  EXPECT_TRUE(file->SubmitRead(0, block(first - 10), 12).ok());
  const std::vector<uint64_t> rest = {file->WaitCompletion().tag, file->WaitCompletion().tag};
  EXPECT_THAT(rest, UnorderedElementsAreArray({uint64_t{12}, 21 - first}));
}

TEST_P(DirectFileOn, TheLastBlockIsFilledUpWithZeros) {
  const std::string contents = RandomBytes(3 * 4096 + 1000);
  const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", contents));
  for (const uint64_t offset : {0, 4096, 3 * 4096}) {
    PageBuffer memory = Memory(4 * 4096 - offset);
    ASSERT_TRUE(file->SubmitRead(offset, memory.bytes(), 0).ok());
    const DirectFile::Completion done = file->WaitCompletion();
    ASSERT_TRUE(done.status.ok()) << done.status;
    EXPECT_TRUE(Text(memory.bytes()) == contents.substr(offset) + std::string(3096, '\0'));
  }
}

TEST_P(DirectFileOn, AReadOfNothingCompletes) {
  for (const size_t size : {0, 4096, 5000}) {
    const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", RandomBytes(size)));
    EXPECT_TRUE(file->Read(0, {}).ok());
    EXPECT_TRUE(file->Read(size, {}).ok());
    EXPECT_TRUE(file->SubmitRead(0, {}, 5).ok());
    const DirectFile::Completion done = file->WaitCompletion();
    EXPECT_EQ(done.tag, 5u);
    EXPECT_TRUE(done.status.ok()) << done.status;
  }
}

TEST_P(DirectFileOn, ReadsPastTheEndAreRefusedByName) {
  const std::string path = dir_.Write("in", RandomBytes(5000));
  const std::unique_ptr<DirectFile> file = Open(path);
  std::vector<std::byte> out(1001);
  EXPECT_TRUE(file->Read(4000, std::span(out).first(1000)).ok());
  EXPECT_EQ(file->Read(4000, out),
            absl::OutOfRangeError(
                Concat(path, ": cannot read 1001 bytes at offset 4000, the file has 5000")));
  EXPECT_EQ(file->Read(5001, {}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->Read(~uint64_t{0}, out).code(), absl::StatusCode::kOutOfRange);

  PageBuffer memory = Memory(3 * 4096);
  EXPECT_EQ(file->SubmitRead(0, memory.bytes(), 0),
            absl::OutOfRangeError(
                Concat(path, ": cannot read 12288 bytes at offset 0, the file has 5000")));
  const uint64_t last_offset = ~uint64_t{0} - 4095;
  EXPECT_EQ(file->SubmitRead(last_offset, memory.bytes(), 0).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->in_flight(), 0u);
}

TEST_P(DirectFileOn, AFileShortenedWhileOpenIsAnErrorThatSaysWhere) {
  const std::string contents = RandomBytes(300'000);
  for (const uint64_t left : {0, 1, 4096, 100'000}) {
    const std::string path = dir_.Write("in", contents);
    const std::unique_ptr<DirectFile> file = Open(path);
    std::filesystem::resize_file(path, left);
    std::vector<std::byte> out(contents.size());
    const absl::Status status = file->Read(0, out);
    EXPECT_EQ(status, DataLoss(path, ": ends at offset ", left,
                               ", it had 300000 bytes when it was opened"));
    // What is left is still read, and the rest refused.
    const absl::Status left_status = file->Read(0, std::span(out).first(left / 4096 * 4096));
    EXPECT_TRUE(left_status.ok()) << left_status;
    EXPECT_TRUE(Text(out).starts_with(contents.substr(0, left / 4096 * 4096)));
    EXPECT_EQ(file->Read(299'999, std::span(out).first(1)).code(), absl::StatusCode::kDataLoss);
  }
}

TEST_P(DirectFileOn, AFileThatGrowsKeepsTheSizeItHad) {
  const std::string contents = RandomBytes(5000);
  const std::string path = dir_.Write("in", contents);
  PageBuffer memory = Memory(8192);
  const std::unique_ptr<DirectFile> file = Open(path);
  dir_.Write("in", contents + RandomBytes(20'000));
  ASSERT_TRUE(file->SubmitRead(0, memory.bytes(), 0).ok());
  EXPECT_TRUE(file->WaitCompletion().status.ok());
  EXPECT_TRUE(Text(memory.bytes()) == contents + std::string(3192, '\0'));
  EXPECT_EQ(file->size(), 5000u);
}

TEST_P(DirectFileOn, ClosingWaitsForTheReadsInFlight) {
  const std::string path = dir_.Write("in", RandomBytes(1 << 20));
  PageBuffer memory = Memory(1 << 20);
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<DirectFile> file = Open(path, 4);
    for (size_t part = 0; part < 4; ++part) {
      const size_t offset = part << 18;
      ASSERT_TRUE(file->SubmitRead(offset, memory.bytes().subspan(offset, 1 << 18), part).ok());
    }
  }
}

TEST_P(DirectFileOn, ReadingAllocatesNothingOnceUnderWay) {
  PageBuffer memory = Memory(1 << 20);
  const std::unique_ptr<DirectFile> file = Open(dir_.Write("in", RandomBytes(1 << 20)), 4);
  const uint64_t before = AllocationCount();
  for (int round = 0; round < 20; ++round) {
    for (size_t part = 0; part < 4; ++part) {
      const size_t offset = part << 18;
      ASSERT_TRUE(file->SubmitRead(offset, memory.bytes().subspan(offset, 1 << 18), part).ok());
    }
    for (size_t part = 0; part < 4; ++part) ASSERT_TRUE(file->WaitCompletion().status.ok());
  }
  EXPECT_EQ(AllocationCount(), before);
}

TEST_P(DirectFileOn, LittleOfWhatIsReadStaysInThePageCache) {
  constexpr uint64_t kFileBytes = 24 << 20;
  constexpr size_t kReadBytes = 256 << 10;
  constexpr uint64_t kStaysMax = 2 << 20;  // a window, and samples
  const std::string path = dir_.Write("in", RandomBytes(kFileBytes));
  if (!Cool(path)) GTEST_SKIP() << "this file system keeps all of its files in memory";
  PageBuffer memory = Memory(4 * kReadBytes);
  const std::unique_ptr<DirectFile> file = Open(path);
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t at = 0, tag = 0; at < kFileBytes; at += kReadBytes) {
      if (file->in_flight() == 4) {
        const DirectFile::Completion done = file->WaitCompletion();
        ASSERT_TRUE(done.status.ok()) << done.status;
        tag = done.tag;
      } else {
        tag = file->in_flight();
      }
      ASSERT_TRUE(
          file->SubmitRead(at, memory.bytes().subspan(tag * kReadBytes, kReadBytes), tag).ok());
    }
    while (file->in_flight() > 0) ASSERT_TRUE(file->WaitCompletion().status.ok());
    EXPECT_LE(CachedBytes(path), kStaysMax) << file->backend();
  }
  // Rows of a table, of which no two are neighbours.
  std::vector<std::byte> row(1000);
  for (uint64_t at = 0; at + row.size() < kFileBytes; at += 40'000) {
    ASSERT_TRUE(file->Read(at, row).ok());
  }
  EXPECT_LE(CachedBytes(path), kStaysMax) << file->backend();
}

TEST_P(DirectFileOn, FilesInMemoryAreReadToo) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "there is no tmpfs at /dev/shm";
  const ScratchDir shm("/dev/shm");
  const std::string contents = RandomBytes(300'001);
  const std::unique_ptr<DirectFile> file = Open(shm.Write("in", contents));
  std::vector<std::byte> out(contents.size());
  const absl::Status status = file->Read(0, out);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Text(out) == contents);
}

TEST(DirectFile, ExtentsAreTheWholeBlocksAround) {
  const ScratchDir dir;
  const std::string path = dir.Write("in", RandomBytes(3 * 4096 + 10));
  absl::StatusOr<std::unique_ptr<DirectFile>> opened = DirectFile::Open(path, {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const DirectFile& file = **opened;
  if (file.alignment() != 4096) GTEST_SKIP() << "blocks are " << file.alignment() << " bytes here";
  const auto extent = [&](uint64_t offset, uint64_t length) {
    const DirectFile::Extent blocks = file.ExtentOf(offset, length);
    return std::vector<uint64_t>{blocks.offset, blocks.length, blocks.skip};
  };
  EXPECT_THAT(extent(0, 4096), ElementsAre(0, 4096, 0));
  EXPECT_THAT(extent(0, 4097), ElementsAre(0, 8192, 0));
  EXPECT_THAT(extent(4095, 2), ElementsAre(0, 8192, 4095));
  EXPECT_THAT(extent(4096, 1), ElementsAre(4096, 4096, 0));
  EXPECT_THAT(extent(3 * 4096 + 9, 1), ElementsAre(3 * 4096, 4096, 9));
  EXPECT_THAT(extent(8192, 0), ElementsAre(8192, 0, 0));
}

TEST(DirectFile, WhatCannotBeOpenedIsASentence) {
  const ScratchDir dir;
  EXPECT_EQ(DirectFile::Open(dir.File("none"), {}).status(),
            NotFound(dir.File("none"), ": cannot open: No such file or directory"));
  EXPECT_EQ(DirectFile::Open(dir.path(), {}).status(),
            InvalidArgument(dir.path(), ": is not a regular file"));
  const std::string pipe = dir.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(DirectFile::Open(pipe, {}).status(), InvalidArgument(pipe, ": is not a regular file"));
  const std::string path = dir.Write("in", "x");
  for (const uint32_t depth : {0u, 1025u, ~0u}) {
    EXPECT_EQ(DirectFile::Open(path, {.queue_depth = depth}).status(),
              InvalidArgument(path, ": cannot be read with ", depth,
                              " reads in flight: ask for 1 to 1024"));
  }
}

// Opens and reads a file under a kernel that refuses `calls`; 0 when that went well, by one of
// `backends`, and the refusals say `reason`.
int ReadUnder(const std::vector<RefusedCall>& calls, const std::vector<std::string>& backends,
              const std::string& reason) {
  const ScratchDir dir;
  const std::string contents = RandomBytes(100'003);
  const std::string path = dir.Write("in", contents);
  const int code = ExitCodeOfChild([&] {
    if (!RefuseCalls(calls)) return kNotAllowed;
    absl::StatusOr<std::unique_ptr<DirectFile>> file = DirectFile::Open(path, {});
    if (!file.ok()) return 1;
    std::vector<std::byte> out(contents.size());
    if (!(*file)->Read(0, out).ok() || Text(out) != contents) return 2;
    const auto& refusals = (*file)->refusals();
    const bool said = std::any_of(refusals.begin(), refusals.end(), [&](const std::string& text) {
      return text.find(reason) != std::string::npos;
    });
    if (!said) return 3;
    const bool known = std::count(backends.begin(), backends.end(), (*file)->backend()) == 1;
    return known ? 0 : 4;
  });
  return code;
}

TEST(DirectFile, ReadsOnWhereIoUringIsRefused) {
  for (const auto& [error_number, reason] :
       {std::pair{ENOSYS, "the kernel refuses io_uring: Function not implemented"},
        std::pair{EPERM, "the kernel refuses io_uring: Operation not permitted"}}) {
    const int code =
        ReadUnder({{.number = SYS_io_uring_setup, .error_number = error_number, .argument = 0}},
                  {"pread + O_DIRECT", "pread, buffered"}, reason);
    if (code == kNotAllowed) GTEST_SKIP() << "this machine does not let a test filter system calls";
    EXPECT_EQ(code, 0) << reason;
  }
}

TEST(DirectFile, ReadsOnWhereDirectIoIsRefused) {
  const int code = ReadUnder({{.number = SYS_openat,
                               .error_number = EINVAL,
                               .argument = 2,
                               .mask = static_cast<uint32_t>(O_DIRECT)}},
                             {"io_uring, buffered", "pread, buffered"},
                             "the file system refuses O_DIRECT: Invalid argument");
  if (code == kNotAllowed) GTEST_SKIP() << "this machine does not let a test filter system calls";
  EXPECT_EQ(code, 0);
}

TEST(DirectFile, ReadsOnWhereBothAreRefused) {
  const int code = ReadUnder({{.number = SYS_openat,
                               .error_number = EINVAL,
                               .argument = 2,
                               .mask = static_cast<uint32_t>(O_DIRECT)},
                              {.number = SYS_io_uring_setup, .error_number = EPERM}},
                             {"pread, buffered"}, "io_uring, buffered: the kernel refuses");
  if (code == kNotAllowed) GTEST_SKIP() << "this machine does not let a test filter system calls";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace outrider
