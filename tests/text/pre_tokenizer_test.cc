#include "common/text/pre_tokenizer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using Rules = TokenizerSpec::PreTokenizer;

std::vector<std::string> Pieces(Rules rules, std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    pieces.emplace_back(text.substr(0, FirstPiece(rules, text)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

TEST(PreTokenizer, ASpaceGoesWithTheWordThatFollows) {
  EXPECT_THAT(Pieces(Rules::kGpt2, "Hello world 1234!? ok"),
              ElementsAre("Hello", " world", " 1234", "!?", " ok"));
  EXPECT_THAT(Pieces(Rules::kLlama3, "Hello world 1234!? ok"),
              ElementsAre("Hello", " world", " ", "123", "4", "!?", " ok"));
  EXPECT_THAT(Pieces(Rules::kQwen2, "Hello world 12!? ok"),
              ElementsAre("Hello", " world", " ", "1", "2", "!?", " ok"));
}

TEST(PreTokenizer, OnlyLlama3AndQwenIgnoreTheCaseOfContractions) {
  EXPECT_THAT(Pieces(Rules::kGpt2, "it's IT'S we'll'"),
              ElementsAre("it", "'s", " IT", "'", "S", " we", "'ll", "'"));
  EXPECT_THAT(Pieces(Rules::kLlama3, "it's IT'S we'Ll'"),
              ElementsAre("it", "'s", " IT", "'S", " we", "'Ll", "'"));
  // Without regard to case the long s is an s; and a contraction does not ask what follows.
  EXPECT_THAT(Pieces(Rules::kQwen2, "it'ſa 'demo"), ElementsAre("it", "'ſ", "a", " '", "demo"));
  EXPECT_THAT(Pieces(Rules::kQwen2, "'demo 'r"), ElementsAre("'d", "emo", " '", "r"));
}

TEST(PreTokenizer, WhiteSpaceLeavesItsLastCharacterToTheWord) {
  EXPECT_THAT(Pieces(Rules::kGpt2, "a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(Pieces(Rules::kGpt2, "a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(Pieces(Rules::kGpt2, "a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_THAT(Pieces(Rules::kGpt2, "a   "), ElementsAre("a", "   "));
  EXPECT_THAT(Pieces(Rules::kGpt2, "a \u3000b"), ElementsAre("a", " ", "\u3000", "b"));
}

TEST(PreTokenizer, Llama3EndsWhiteSpaceAtItsLastNewline) {
  EXPECT_THAT(Pieces(Rules::kLlama3, "a \n\r\n  b"), ElementsAre("a", " \n\r\n", " ", " b"));
  EXPECT_THAT(Pieces(Rules::kLlama3, "x;\n\ny"), ElementsAre("x", ";\n\n", "y"));
  EXPECT_THAT(Pieces(Rules::kLlama3, "a \t"), ElementsAre("a", " \t"));
}

TEST(PreTokenizer, Llama3JoinsOneOtherCharacterToTheWord) {
  EXPECT_THAT(Pieces(Rules::kLlama3, "(word) \tword"), ElementsAre("(word", ")", " ", "\tword"));
  EXPECT_THAT(Pieces(Rules::kLlama3, "語 1語"), ElementsAre("語", " ", "1", "語"));
  EXPECT_THAT(Pieces(Rules::kLlama3, "\nword"), ElementsAre("\n", "word"));
}

TEST(PreTokenizer, NoneIsOnePiece) {
  EXPECT_THAT(Pieces(Rules::kNone, "a b\nc"), ElementsAre("a b\nc"));
}

// Every one of these takes a backtracking engine quadratic time; here a test that hangs would be
// the failure.
TEST(PreTokenizer, HostileRunsAreLinear) {
  for (const Rules rules : {Rules::kGpt2, Rules::kLlama3, Rules::kQwen2}) {
    for (const std::string unit : {" ", "\n", " \n", "\u3000", "'", "a", "1", "!\n", " '"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      size_t bytes = 0;
      for (const std::string& piece : Pieces(rules, text + "x")) bytes += piece.size();
      EXPECT_EQ(bytes, text.size() + 1);
    }
  }
}

}  // namespace
}  // namespace outrider
