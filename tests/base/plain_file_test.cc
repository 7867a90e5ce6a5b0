#include "common/base/plain_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

std::string Text(const PlainFile& file, uint64_t offset, size_t count) {
  std::string text(count, ' ');
  OUTRIDER_CHECK_OK(file.Read(offset, std::as_writable_bytes(std::span(text)), "some text"));
  return text;
}

TEST(PlainFile, ReadsAnyBytesOfTheFile) {
  const ScratchDir dir;
  std::string contents(10'000, '\0');
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 7);
  const absl::StatusOr<PlainFile> file = PlainFile::Open(dir.Write("in", contents));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->path(), dir.File("in"));
  EXPECT_EQ(file->size(), contents.size());
  EXPECT_TRUE(Text(*file, 0, contents.size()) == contents);
  EXPECT_EQ(Text(*file, 4095, 3), contents.substr(4095, 3));
  EXPECT_EQ(Text(*file, contents.size(), 0), "");
}

TEST(PlainFile, AnEmptyFileHasNoBytes) {
  const ScratchDir dir;
  const absl::StatusOr<PlainFile> file = PlainFile::Open(dir.Write("in", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 0u);
  EXPECT_EQ(Text(*file, 0, 0), "");
}

TEST(PlainFile, OutlivesTheNameOfItsFile) {
  const ScratchDir dir;
  const absl::StatusOr<PlainFile> file = PlainFile::Open(dir.Write("in", "still here"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::remove(dir.File("in"));
  EXPECT_EQ(Text(*file, 0, 10), "still here");
}

TEST(PlainFile, MovesWithItsFile) {
  const ScratchDir dir;
  absl::StatusOr<PlainFile> first = PlainFile::Open(dir.Write("first", "1"));
  absl::StatusOr<PlainFile> second = PlainFile::Open(dir.Write("second", "22"));
  ASSERT_TRUE(first.ok() && second.ok());
  PlainFile moved = *std::move(first);
  EXPECT_EQ(Text(moved, 0, 1), "1");
  moved = *std::move(second);
  EXPECT_EQ(Text(moved, 0, 2), "22");
  EXPECT_EQ(moved.path(), dir.File("second"));
}

TEST(PlainFile, WhatHasGoneMeanwhileIsASentenceWithItsPlace) {
  const ScratchDir dir;
  const std::string path = dir.Write("in", std::string(10'000, 'a'));
  const absl::StatusOr<PlainFile> file = PlainFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(Text(*file, 4000, 6000), std::string(6000, 'a'));
  std::filesystem::resize_file(path, 4096);
  std::string part(6000, ' ');
  const auto read = [&](uint64_t offset) {
    return file->Read(offset, std::as_writable_bytes(std::span(part)), "its end");
  };
  EXPECT_EQ(
      read(4000),
      DataLoss(path, ": its end cannot be read at offset 4096: ", "the file has become shorter"));
  EXPECT_EQ(read(4000).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(
      read(0),
      DataLoss(path, ": its end cannot be read at offset 4096: ", "the file has become shorter"));
  EXPECT_EQ(Text(*file, 4000, 96), std::string(96, 'a'));
}

// A disk that fails says so in the same way, with words of its own.
TEST(PlainFile, WhatTheKernelCannotReadIsItsSentenceWithThePlace) {
  const ScratchDir dir;
  const std::string path = dir.Write("in", std::string(10'000, 'a'));
  const absl::StatusOr<PlainFile> file = PlainFile::Open(path);
  ASSERT_TRUE(file.ok());
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const nowhere = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nowhere, MAP_FAILED);
  EXPECT_EQ(file->Read(17, {static_cast<std::byte*>(nowhere), 100}, "tensor a"),
            DataLoss(path, ": tensor a cannot be read at offset 17: Bad address"));
  munmap(nowhere, page);
}

TEST(ReadWholeFile, ReadsAllThatThereIs) {
  const ScratchDir dir;
  const std::string text = "one\0two" + std::string(100'000, 'x');
  EXPECT_EQ(*ReadWholeFile(dir.Write("in", text)), text);
  EXPECT_EQ(*ReadWholeFile(dir.Write("empty", "")), "");
  EXPECT_EQ(ReadWholeFile(dir.path()).status(),
            InvalidArgument(dir.path(), ": is not a regular file"));
}

TEST(PlainFile, WhatCannotBeOpenedIsASentence) {
  const ScratchDir dir;
  EXPECT_EQ(PlainFile::Open(dir.File("none")).status(),
            NotFound(dir.File("none"), ": cannot open: No such file or directory"));
  EXPECT_EQ(PlainFile::Open(dir.path()).status(),
            InvalidArgument(dir.path(), ": is not a regular file"));
  EXPECT_EQ(PlainFile::Open("/dev/zero").status(),
            InvalidArgument("/dev/zero: is not a regular file"));

  const std::string pipe = dir.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(PlainFile::Open(pipe).status(), InvalidArgument(pipe, ": is not a regular file"));
}

}  // namespace
}  // namespace outrider
