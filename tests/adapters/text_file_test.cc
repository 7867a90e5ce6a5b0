#include "adapters/text/text_file.h"

#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

void WriteGzip(const std::string& path, std::string_view text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
}

std::string Complaint(const std::string& path) {
  return std::string(Message(ReadTextFile(path).status()));
}

TEST(TextFile, PlainAndPackedAreTheSame) {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "line " + std::to_string(i) + " \xC3\xA9\n";
  dir.Write("plain", text);
  WriteGzip(dir.File("packed"), text);
  EXPECT_EQ(*ReadTextFile(dir.File("plain")), text);
  EXPECT_EQ(*ReadTextFile(dir.File("packed")), text);
  dir.Write("empty", "");
  EXPECT_EQ(*ReadTextFile(dir.File("empty")), "");
}

TEST(TextFile, WhatCannotBeReadIsSaid) {
  const ScratchDir dir;
  EXPECT_THAT(Complaint(dir.File("none")), EndsWith("cannot open: No such file or directory"));
  EXPECT_THAT(Complaint(dir.File("")), HasSubstr("is a directory"));
  dir.Write("latin1", "caf\xE9 noir");
  EXPECT_THAT(Complaint(dir.File("latin1")), HasSubstr("byte 3 of the text is no UTF-8"));

  std::string text;
  for (int64_t i = 0; i < 100000; ++i) text += std::to_string(i * i) + "\n";
  WriteGzip(dir.File("packed"), text);
  std::string bytes = ReadFile(dir.File("packed"));
  for (const size_t length : {bytes.size() / 2, bytes.size() - 4, bytes.size() - 9}) {
    dir.Write("cut", std::string_view(bytes).substr(0, length));
    EXPECT_EQ(ReadTextFile(dir.File("cut")).status().code(), absl::StatusCode::kDataLoss) << length;
  }
  bytes[bytes.size() / 2] ^= 0x55;
  dir.Write("damaged", bytes);
  EXPECT_EQ(ReadTextFile(dir.File("damaged")).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Documents, ALineOfItsOwnParts) {
  EXPECT_THAT(Documents("one\n<|endoftext|>\n two\nlines \n<|endoftext|>\n"),
              ElementsAre("one", "two\nlines"));
  EXPECT_THAT(Documents("one\r\n<|endoftext|>\r\ntwo"), ElementsAre("one", "two"));
  EXPECT_THAT(Documents("says <|endoftext|> here"), ElementsAre("says <|endoftext|> here"));
  EXPECT_THAT(Documents("<|endoftext|>\n\n<|endoftext|>\n \n"), ElementsAre());
  EXPECT_THAT(Documents("<|endoftext|>\nlast\n<|endoftext|>"), ElementsAre("last"));
  EXPECT_THAT(Documents(""), ElementsAre());
}

}  // namespace
}  // namespace outrider
