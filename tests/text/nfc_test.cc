#include "common/text/unicode/nfc.h"

#include <string>
#include <utility>

#include "common/text/unicode/unicode.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

std::string Composed(std::string_view text) {
  std::string storage;
  return std::string(ComposeNfc(text, storage));
}

TEST(Nfc, ComposedTextIsNotCopied) {
  const std::string text = "plain, “quoted”, é, 語, 한국어, 😀";
  std::string storage;
  EXPECT_EQ(ComposeNfc(text, storage).data(), text.data());
}

TEST(Nfc, ComposesOrdersAndDecomposes) {
  const std::pair<const char*, const char*> cases[] = {
      {"e\u0301", "é"},
      {"cafe\u0301 noir", "café noir"},
      {"q\u0307\u0323", "q\u0323\u0307"},  // marks in canonical order, nothing to compose
      {"a\u0323\u0302", "\u1EAD"},         // two steps: ạ, then ậ
      {"\u212B\u2126", "\u00C5\u03A9"},    // singletons
      {"\u0958", "\u0915\u093C"},          // excluded from composition
      {"\u1112\u1161\u11AB", "한"},        // Hangul
      {"\uAC00\u11A8", "각"},
      {"\uAC00\u11A7", "\uAC00\u11A7"},  // U+11A7 is no final consonant
      {"\u0301e\u0301", "\u0301é"},      // a mark with nothing before it
      {"\uF900", "\u8C48"},              // a compatibility ideograph
      {"", ""},
  };
  for (const auto& [text, composed] : cases) EXPECT_EQ(Composed(text), composed) << text;
}

TEST(Nfc, IsStable) {
  std::string text;
  for (char32_t code = 1; code < 0x30000; code += 7) {
    if (code < 0xD800 || code > 0xDFFF) AppendUtf8(code, text);
  }
  const std::string once = Composed(text);
  EXPECT_EQ(Composed(once), once);
}

// utf8proc's own ordering would take hours.
TEST(Nfc, AMillionMarksAreNoAttack) {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  const std::string composed = Composed(text);
  EXPECT_TRUE(composed.starts_with("ạ\u0323\u0323"));
  EXPECT_TRUE(composed.ends_with("\u0301\u0301"));
}

}  // namespace
}  // namespace outrider
