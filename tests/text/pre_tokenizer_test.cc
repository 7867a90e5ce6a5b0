#include "common/text/pre_tokenizer.h"

#include <set>
#include <string>
#include <vector>

#include "common/formats/tokenizers/tokenizer_gguf_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using Rules = TokenizerSpec::PreTokenizer;

std::vector<std::string> Pieces(Rules rules, std::string_view text) {
  std::vector<std::string> pieces;
  ForEachPiece(rules, text, [&](std::string_view piece) { pieces.emplace_back(piece); });
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

TEST(PreTokenizer, CaseCutsWords) {
  EXPECT_THAT(Pieces(Rules::kTekken, "camelCase HTMLParser it's"),
              ElementsAre("camel", "Case", " HTMLParser", " it", "'s"));
  EXPECT_THAT(Pieces(Rules::kGpt4o, "it's IT'S don't"), ElementsAre("it's", " IT'S", " don't"));
  // A run of capitals gives back what may also be lower: letters without case, and marks.
  EXPECT_THAT(Pieces(Rules::kGpt4o, "A語B"), ElementsAre("A語", "B"));
  EXPECT_THAT(Pieces(Rules::kGpt4o, "\u0301A"), ElementsAre("\u0301", "A"));
  EXPECT_THAT(Pieces(Rules::kKimiK2, "abc語語DE12345"),
              ElementsAre("abc", "語語", "DE", "123", "45"));
}

TEST(PreTokenizer, OfSeveralExpressionsEachSeesThePiecesOfTheOneBefore) {
  // Behind the cut before the digit two spaces are at the end of a text.
  EXPECT_THAT(Pieces(Rules::kSmollm, "a  12"), ElementsAre("a", "  ", "1", "2"));
  EXPECT_THAT(Pieces(Rules::kGpt2, "a  12"), ElementsAre("a", " ", " 12"));
  EXPECT_THAT(Pieces(Rules::kDeepseekV3, "x1234語か!ab"),
              ElementsAre("x", "123", "4", "語か", "!ab"));
  EXPECT_THAT(Pieces(Rules::kFalcon, "a 1234.5"), ElementsAre("a", " ", "123", "4", ".", "5"));
}

TEST(PreTokenizer, DigitsAreCountedFromTheRightWhereModelsReadThemSo) {
  EXPECT_THAT(Pieces(Rules::kAfmoe, "1234567"), ElementsAre("1", "234", "567"));
  EXPECT_THAT(Pieces(Rules::kSuperBpe, "a 1234 b"), ElementsAre("a ", "1", "234", " b"));
  EXPECT_THAT(Pieces(Rules::kTinyAya, "1234 5678x"), ElementsAre("1", "234", " ", "567", "8", "x"));
  EXPECT_THAT(Pieces(Rules::kTinyAya, "1234\u200d"), ElementsAre("1", "234", "\u200d"));
}

TEST(PreTokenizer, NoneIsOnePiece) {
  EXPECT_THAT(Pieces(Rules::kNone, "a b\nc"), ElementsAre("a b\nc"));
}

// Every one of these takes a backtracking engine quadratic time; here a test that hangs would be
// the failure.
TEST(PreTokenizer, HostileRunsAreLinear) {
  std::set<Rules> all;
  for (const PreName& name : PreNames()) all.insert(name.pre_tokenizer);
  for (const Rules rules : all) {
    for (const std::string unit : {" ", "\n", " \n", "\u3000", "'", "a", "A", "1", "!\n", " '",
                                   "a ", "A語", "\u0301", "<sentinel:1", "IMGIMG", "1x", "²"}) {
      std::string text;
      while (text.size() < 100'000) text += unit;
      size_t bytes = 0;
      for (const std::string& piece : Pieces(rules, text + "x")) bytes += piece.size();
      EXPECT_EQ(bytes, text.size() + 1);
    }
  }
}

}  // namespace
}  // namespace outrider
