#include "common/base/quote.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Harmless, LeavesTextOfAnyLanguageAsItIs) {
  EXPECT_EQ(Harmless("Größe 大きさ ñ 😀 \\ \"x\""), "Größe 大きさ ñ 😀 \\ \"x\"");
  EXPECT_EQ(Harmless(""), "");
}

TEST(Harmless, SpellsWhatATerminalObeys) {
  EXPECT_EQ(Harmless("a\x1b[2Jb\r\n\t\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(Harmless("a\u009b1m\u0085b\u00a0"), "a\\xc2\\x9b1m\\xc2\\x85b\u00a0");
  EXPECT_EQ(Harmless("exe.\u202efgug\u2066x\u2069"),
            "exe.\\xe2\\x80\\xaefgug\\xe2\\x81\\xa6x\\xe2\\x81\\xa9");
  EXPECT_EQ(Harmless("\xc2"), "\xc2");  // cut off: for whoever asks whether it is UTF-8
}

}  // namespace
}  // namespace outrider
