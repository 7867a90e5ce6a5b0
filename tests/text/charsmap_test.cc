#include "common/text/charsmap.h"

#include <random>
#include <string>

#include "common/base/status.h"
#include "common/text/unicode/unicode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/text/charsmap_bytes.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::string SmallMap() {
  return CharsmapBytes({{"ﬁ", "fi"},
                        {"Ａ", "A"},
                        {"\u3000", " "},
                        {"e\u0301", "é"},
                        {"\r", " "},
                        {"\u00AD", ""},
                        {"㍿", "株式会社"}})
      .bytes();
}

std::string Normalized(const Charsmap& map, std::string_view text) {
  std::string storage;
  return std::string(map.Normalize(text, storage));
}

TEST(Charsmap, ReplacesWhatItKnowsAndKeepsTheRest) {
  const absl::StatusOr<Charsmap> map = Charsmap::Parse(SmallMap());
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(Normalized(*map, "ﬁne Ａ\u3000b㍿語"), "fine A b株式会社語");
  EXPECT_EQ(Normalized(*map, "soft\u00ADhyphen"), "softhyphen");
  EXPECT_EQ(Normalized(*map, ""), "");
}

TEST(Charsmap, AShortGraphemeIsLookedUpWhole) {
  const absl::StatusOr<Charsmap> map = Charsmap::Parse(SmallMap());
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(Normalized(*map, "e\u0301"), "é");
  EXPECT_EQ(Normalized(*map, "a\r\nb"),
            "a b");  // one grapheme, and its first key is the carriage return
  // Three marks make the grapheme too long: each character by itself.
  EXPECT_EQ(Normalized(*map, "e\u0301\u0302\u0303"), "e\u0301\u0302\u0303");
}

TEST(Charsmap, BrokenTablesAreRefusedWithASentence) {
  EXPECT_THAT(std::string(Message(Charsmap::Parse("abc").status())),
              HasSubstr("3 bytes hold no trie size"));
  EXPECT_THAT(std::string(Message(Charsmap::Parse(std::string("\xFF\xFF\xFF\x7F"
                                                              "abcd"))
                                      .status())),
              HasSubstr("a trie of 2147483647 bytes does not fit the 4 bytes"));
  const std::string map = SmallMap();
  EXPECT_THAT(std::string(Message(Charsmap::Parse(map + "\xFF").status())), HasSubstr("not UTF-8"));
  EXPECT_THAT(std::string(Message(Charsmap::Parse(map + std::string(1000, 'a')).status())),
              HasSubstr("a replacement of 1000 bytes"));
}

TEST(Charsmap, NoTableReadsPastItsEnd) {
  const std::string good = SmallMap();
  const std::string text = "ﬁne Ａ\u3000b㍿語 e\u0301 \r\n plain";
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good.substr(0, round % 4 == 0 ? random() % good.size() : good.size());
    for (int i = 0; i < 4 && bytes.size() > 4; ++i)
      bytes[4 + random() % (bytes.size() - 4)] ^= static_cast<char>(1 << random() % 8);
    const absl::StatusOr<Charsmap> map = Charsmap::Parse(bytes);
    if (!map.ok()) continue;
    const std::string normalized = Normalized(*map, text);
    std::string storage;
    ASSERT_EQ(ValidUtf8(normalized, storage).data(), normalized.data());
  }
}

}  // namespace
}  // namespace outrider
