#include "common/base/mapped_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

std::string_view Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const ScratchDir dir;
  std::string contents(10'000, '\0');
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 7);
  const absl::StatusOr<MappedFile> file = MappedFile::Open(dir.Write("in", contents));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->path(), dir.File("in"));
  EXPECT_TRUE(Text(*file) == contents);
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const ScratchDir dir;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(dir.Write("in", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, OutlivesTheNameOfItsFile) {
  const ScratchDir dir;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(dir.Write("in", "still here"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::remove(dir.File("in"));
  EXPECT_EQ(Text(*file), "still here");
}

TEST(MappedFile, MovesWithItsMapping) {
  const ScratchDir dir;
  absl::StatusOr<MappedFile> first = MappedFile::Open(dir.Write("first", "1"));
  absl::StatusOr<MappedFile> second = MappedFile::Open(dir.Write("second", "22"));
  ASSERT_TRUE(first.ok() && second.ok());
  MappedFile moved = *std::move(first);
  EXPECT_EQ(Text(moved), "1");
  moved = *std::move(second);
  EXPECT_EQ(Text(moved), "22");
  EXPECT_EQ(moved.path(), dir.File("second"));
}

// Of file pages, in bytes.
uint64_t ResidentFileBytes() {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kKey = "RssFile:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return std::stoull(line.substr(kKey.size())) * 1024;
  }
  return 0;
}

TEST(MappedFile, WhatIsForgottenTakesNoMemoryAndCanBeReadAgain) {
  const ScratchDir dir;
  constexpr size_t kBytes = 16 << 20;
  std::string contents(kBytes, '\0');
  for (size_t i = 0; i < kBytes; ++i) contents[i] = static_cast<char>(i * 7 + i / 4096);
  const absl::StatusOr<MappedFile> file = MappedFile::Open(dir.Write("in", contents));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(Text(*file) == contents);
  const uint64_t read = ResidentFileBytes();
  MappedFile::Forget(file->bytes().subspan(100, kBytes - 300));  // of no whole pages
  EXPECT_LE(ResidentFileBytes() + kBytes * 9 / 10, read);
  EXPECT_TRUE(Text(*file) == contents);
  MappedFile::Forget({});
}

TEST(MappedFile, WhatHasGoneMeanwhileIsASentenceWithItsPlace) {
  const ScratchDir dir;
  const std::string path = dir.Write("in", std::string(10'000, 'a'));
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::string part(6000, ' ');
  EXPECT_TRUE(file->Copy(4000, std::as_writable_bytes(std::span(part)), "its end").ok());
  EXPECT_EQ(part, std::string(6000, 'a'));
  std::filesystem::resize_file(path, 4096);
  const absl::Status lost = file->Copy(4000, std::as_writable_bytes(std::span(part)), "its end");
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  // At which of the two pages that are gone is for the machine's copying to say.
  EXPECT_TRUE(Message(lost).starts_with(Concat(path, ": its end cannot be read at offset ")))
      << lost;
  EXPECT_TRUE(
      file->Copy(4000, std::as_writable_bytes(std::span(part)).first(96), "what is left").ok());
}

TEST(ReadWholeFile, ReadsAllThatThereIs) {
  const ScratchDir dir;
  const std::string text = "one\0two" + std::string(100'000, 'x');
  EXPECT_EQ(*ReadWholeFile(dir.Write("in", text)), text);
  EXPECT_EQ(*ReadWholeFile(dir.Write("empty", "")), "");
  EXPECT_EQ(ReadWholeFile(dir.path()).status(),
            InvalidArgument(dir.path(), ": is not a regular file"));
}

TEST(MappedFile, WhatCannotBeMappedIsASentence) {
  const ScratchDir dir;
  EXPECT_EQ(MappedFile::Open(dir.File("none")).status(),
            NotFound(dir.File("none"), ": cannot open: No such file or directory"));
  EXPECT_EQ(MappedFile::Open(dir.path()).status(),
            InvalidArgument(dir.path(), ": is not a regular file"));
  EXPECT_EQ(MappedFile::Open("/dev/zero").status(),
            InvalidArgument("/dev/zero: is not a regular file"));

  const std::string pipe = dir.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(pipe).status(), InvalidArgument(pipe, ": is not a regular file"));
}

}  // namespace
}  // namespace outrider
