#include "common/text/unicode/unicode.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

std::string Repaired(std::string_view bytes) {
  std::string storage;
  return std::string(ValidUtf8(bytes, storage));
}

TEST(Utf8, ValidTextIsNotCopied) {
  const std::string text = "plain, é, 語, 😀 and a text longer than eight bytes";
  std::string storage;
  EXPECT_EQ(ValidUtf8(text, storage).data(), text.data());
}

// The answers are those of Python's bytes.decode("utf-8", "replace").
TEST(Utf8, EachLongestBrokenPrefixBecomesOneReplacement) {
  const std::pair<std::string, std::string> cases[] = {
      {"\xFF", "\uFFFD"},
      {"a\x80z", "a\uFFFDz"},
      {"\xC0\xAF", "\uFFFD\uFFFD"},                      // overlong: no such lead byte
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},            // overlong: E0 80 begins nothing
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // a surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // above U+10FFFF
      {"\xF0\x9F\x98", "\uFFFD"},                        // cut short at the end
      {"\xF0\x9F\x98"
       "a",
       "\uFFFD"
       "a"},                                    // and before a letter
      {"\xE6\x97\xF0\x9F\x98\x80", "\uFFFD😀"},  // and before a character
      {"12345678\xE2\x82", "12345678\uFFFD"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(Repaired(bytes), text);
}

TEST(Utf8, EveryCodePointSurvivesEncodingAndDecoding) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(code, text);
    const Utf8Sequence sequence = FirstSequence(text);
    ASSERT_EQ(sequence.state, Utf8Sequence::State::kWhole) << static_cast<uint32_t>(code);
    ASSERT_EQ(sequence.length, text.size()) << static_cast<uint32_t>(code);
    ASSERT_TRUE(DecodeAt(text, 0).code == code);
    ASSERT_TRUE(DecodeBefore(text, text.size()).code == code);
  }
}

// Counted with Oniguruma as Hugging Face's tokenizers 0.23.3 has it.
TEST(CharacterClasses, HoldAsManyCharactersAsTheReference) {
  int letters = 0, numbers = 0, spaces = 0, uppers = 0, lowers = 0, marks = 0, digits = 0;
  int punctuation = 0, symbols = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    letters += (ClassOf(code) & character::kLetter) != 0;
    numbers += (ClassOf(code) & character::kNumber) != 0;
    spaces += IsSpace(code);
    uppers += ClassOf(code) == character::kUpper;
    lowers += ClassOf(code) == character::kLower;
    marks += ClassOf(code) == character::kMark;
    digits += ClassOf(code) == character::kDigit;
    punctuation += ClassOf(code) == character::kPunctuation;
    symbols += ClassOf(code) == character::kSymbol;
  }
  EXPECT_EQ(letters, 141028);
  EXPECT_EQ(numbers, 1911);
  EXPECT_EQ(spaces, 25);
  EXPECT_EQ(uppers, 1889);
  EXPECT_EQ(lowers, 2258);
  EXPECT_EQ(marks, 2501);
  EXPECT_EQ(digits, 760);
  EXPECT_EQ(punctuation, 855);
  EXPECT_EQ(symbols, 8514);
}

TEST(CharacterClasses, WordCharactersAreWhatRegexesCallThem) {
  for (const uint32_t code :
       {0x61, 0x5A, 0x5F, 0x30, 0xE9, 0x8A9E, 0x301, 0x661, 0x2168, 0x24D0, 0x200D}) {
    EXPECT_TRUE(IsWordCharacter(code)) << static_cast<uint32_t>(code);
  }
  for (const uint32_t code : {0x20, 0x2D, 0x2E, 0xB2, 0x2460, 0x1F600}) {
    EXPECT_FALSE(IsWordCharacter(code)) << static_cast<uint32_t>(code);
  }
}

}  // namespace
}  // namespace outrider
