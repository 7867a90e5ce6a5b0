#include <string>

#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using PreTokenizer = TokenizerSpec::PreTokenizer;

constexpr char kVocab[] = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})";

absl::StatusOr<TokenizerSpec> Read(std::string_view vocab, std::string_view merges) {
  return TokenizerFromVocabAndMerges(vocab, merges, PreTokenizer::kGpt2, "v.json");
}

TEST(TokenizerVocabMerges, ReadsHeaderEmptyLinesAndCarriageReturns) {
  for (const char* merges :
       {"a b", "a b\n", "#version: 0.2\na b\n\n", "#version: 0.2\r\na b\r\n"}) {
    const absl::StatusOr<TokenizerSpec> spec = Read(kVocab, merges);
    ASSERT_EQ(Outcome(spec), "OK") << merges;
    EXPECT_THAT(spec->merges, ElementsAre(Pair(0, 1)));
  }
}

TEST(TokenizerVocabMerges, EndOfTextIsSpecialWhereItExists) {
  absl::StatusOr<TokenizerSpec> spec = Read(kVocab, "a b");
  EXPECT_EQ(spec->tokens[3].kind, TokenKind::kControl);
  EXPECT_EQ(spec->bos, 3);
  EXPECT_EQ(spec->eos, 3);
  EXPECT_FALSE(spec->add_bos);
  spec = Read(R"({"a": 0})", "");
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_TRUE(spec->added_tokens.empty());
}

TEST(TokenizerVocabMerges, ReadsGpt2) {
  const absl::StatusOr<TokenizerSpec> spec = Read(ReadFile(TestFile("tokenizers/gpt2/vocab.json")),
                                                  ReadFile(TestFile("tokenizers/gpt2/merges.txt")));
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens.size(), 50257u);
  EXPECT_EQ(spec->merges.size(), 50000u);
  EXPECT_EQ(spec->tokens[262].text, " the");
  EXPECT_EQ(spec->tokens[198].text, "\n");
  EXPECT_EQ(spec->eos, 50256);
}

TEST(TokenizerVocabMerges, BadInputGetsASentence) {
  EXPECT_EQ(Outcome(Read("[]", "")), "v.json: the vocabulary is not a JSON object");
  EXPECT_EQ(Outcome(Read("{}", "")), "v.json: the vocabulary is empty");
  EXPECT_EQ(Outcome(Read("{\"a\": 0", "")),
            "v.json: ends after 7 bytes in the middle of its JSON; it is cut off, fetch it again");
  EXPECT_EQ(Outcome(Read(R"({"a": "0"})", "")), "v.json: a token's id is not a whole number");
  EXPECT_EQ(Outcome(Read(R"({"a": 0, "b": 0})", "")),
            "v.json: token id 0 is given to both \"a\" and \"b\"");
  EXPECT_EQ(Outcome(Read(kVocab, "ab")),
            "v.json: merge 0 (\"ab\") is not two tokens with a space between them");
  EXPECT_EQ(Outcome(Read(kVocab, "a b\na b c")),
            "v.json: merge 1 (\"a\" \"b c\") uses \"b c\", which is no token");
}

}  // namespace
}  // namespace outrider
