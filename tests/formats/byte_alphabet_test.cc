#include "common/formats/tokenizers/byte_alphabet.h"

#include <string>

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(ByteAlphabet, EveryByteComesBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(UnspellBytes(SpellBytes(all)), all);
}

TEST(ByteAlphabet, SpellsAsGpt2Does) {
  EXPECT_EQ(SpellBytes(" the\n"), "ĠtheĊ");
  EXPECT_EQ(SpellBytes(std::string("\0\x7f\x80\xad\xff", 5)), "ĀġĢŃÿ");
  EXPECT_EQ(SpellBytes("é"), "Ã©");
}

TEST(ByteAlphabet, KnowsItsOwnCharactersOnly) {
  EXPECT_TRUE(UnspellBytes("Ń").has_value());          // U+0143, the last of them
  EXPECT_FALSE(UnspellBytes("ń").has_value());         // U+0144
  EXPECT_FALSE(UnspellBytes(" ").has_value());         // a space is spelled U+0120
  EXPECT_FALSE(UnspellBytes("\xC2\xAD").has_value());  // U+00AD, a soft hyphen
  EXPECT_FALSE(UnspellBytes("▁").has_value());
  EXPECT_FALSE(UnspellBytes("\xC4").has_value());  // half a character
  EXPECT_FALSE(UnspellBytes("\xC4z").has_value());
  EXPECT_FALSE(UnspellBytes("\xC1\xA1").has_value());  // "a" in two bytes
}

}  // namespace
}  // namespace outrider
