#include "common/text/added_tokens.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using Added = TokenizerSpec::AddedToken;

// Tokens in brackets, text as it is.
std::vector<std::string> Sections(std::vector<Added> tokens, std::string_view text,
                                  bool parse_special = true) {
  std::vector<std::string> sections;
  const AddedTokens added(std::move(tokens));
  for (const auto& section : added.Split(text, parse_special)) {
    sections.push_back(section.token != nullptr ? "[" + section.token->text + "]"
                                                : std::string(section.text));
  }
  return sections;
}

TEST(AddedTokens, TheLongestAtTheLeftmostPlaceWins) {
  const std::vector<Added> tokens = {{.text = "<a"}, {.text = "<a>"}, {.text = ">>"}};
  EXPECT_THAT(Sections(tokens, "x<a>>y<a"), ElementsAre("x", "[<a>]", ">y", "[<a]"));
}

TEST(AddedTokens, TextWithoutThemIsOneSectionAndNoTextIsNone) {
  EXPECT_THAT(Sections({{.text = "<a>"}}, "plain"), ElementsAre("plain"));
  EXPECT_THAT(Sections({{.text = "<a>"}}, ""), ElementsAre());
  EXPECT_THAT(Sections({}, "plain"), ElementsAre("plain"));
}

TEST(AddedTokens, SpecialOnesAreTextWhenNotParsed) {
  const std::vector<Added> tokens = {
      {.text = "<s>", .special = true}, {.text = "<s>x", .special = true}, {.text = "<s"}};
  EXPECT_THAT(Sections(tokens, "a<s>x"), ElementsAre("a", "[<s>x]"));
  EXPECT_THAT(Sections(tokens, "a<s>x", /*parse_special=*/false), ElementsAre("a", "[<s]", ">x"));
}

TEST(AddedTokens, StrippingTakesWhiteSpaceOfAnyKind) {
  EXPECT_THAT(Sections({{.text = "<l>", .strip_left = true}}, "a \u3000<l> b"),
              ElementsAre("a", "[<l>]", " b"));
  EXPECT_THAT(Sections({{.text = "<r>", .strip_right = true}}, "a <r>\n\u00A0b"),
              ElementsAre("a ", "[<r>]", "b"));
}

// As Hugging Face has it: the search goes on right behind a match, into the white space that it
// took.
TEST(AddedTokens, StrippedWhiteSpaceMayMatchAgain) {
  const std::vector<Added> tokens = {
      {.text = "<a>", .strip_right = true}, {.text = "<b>", .strip_left = true}, {.text = "  "}};
  EXPECT_THAT(Sections(tokens, "<a>   <b>"), ElementsAre("[<a>]", "[  ]", "[<b>]"));
  EXPECT_THAT(Sections(tokens, "<a>    z"), ElementsAre("[<a>]", "[  ]", "[  ]", "z"));
}

TEST(AddedTokens, SingleWordsStandAlone) {
  const std::vector<Added> tokens = {{.text = "ab", .single_word = true}};
  EXPECT_THAT(Sections(tokens, "ab xab ab_ é-ab!"),
              ElementsAre("[ab]", " xab ab_ é-", "[ab]", "!"));
  EXPECT_THAT(Sections(tokens, "abab"), ElementsAre("abab"));  // the second is refused as well
}

}  // namespace
}  // namespace outrider
