#include <string>

#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using PreTokenizer = TokenizerSpec::PreTokenizer;

absl::StatusOr<TokenizerSpec> Read(std::string_view text,
                                   PreTokenizer pre_tokenizer = PreTokenizer::kGpt2) {
  return TokenizerFromTiktoken(text, pre_tokenizer, "t.model");
}

// a b c ab bc abc
constexpr char kRanks[] = "YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYmM= 4\nYWJj 5\n";

TEST(TokenizerTiktoken, EveryCutOfATokenIntoTwoIsAMergeOfItsRank) {
  const absl::StatusOr<TokenizerSpec> spec = Read(kRanks);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens[5].text, "abc");
  EXPECT_THAT(spec->merges, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(0, 4), Pair(3, 2)));
  EXPECT_TRUE(spec->ignore_merges);
  EXPECT_TRUE(spec->added_tokens.empty());
}

TEST(TokenizerTiktoken, Llama3BringsItsOwnSpecialTokens) {
  const absl::StatusOr<TokenizerSpec> spec = Read(kRanks, PreTokenizer::kLlama3);
  ASSERT_EQ(Outcome(spec), "OK");
  ASSERT_EQ(spec->tokens.size(), 6u + 256u);
  EXPECT_EQ(spec->added_tokens.size(), 256u);
  EXPECT_EQ(spec->tokens[6].text, "<|begin_of_text|>");
  EXPECT_EQ(spec->tokens[6 + 9].text, "<|eot_id|>");
  EXPECT_EQ(spec->tokens[6 + 255].text, "<|reserved_special_token_245|>");
  EXPECT_EQ(spec->bos, 6);
  EXPECT_EQ(spec->eot, 6 + 9);
  EXPECT_TRUE(spec->add_bos);
}

TEST(TokenizerTiktoken, ReadsLlama3) {
  const std::string path = ExternalFile("tokenizers/llama3/tokenizer.model");
  OUTRIDER_SKIP_WITHOUT(path);
  const absl::StatusOr<TokenizerSpec> spec = Read(ReadFile(path), PreTokenizer::kLlama3);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens.size(), 128256u);
  EXPECT_EQ(spec->merges.size(), 280147u);  // as many as Meta's own tokenizer.json lists
  EXPECT_EQ(spec->eot, 128009);
}

TEST(TokenizerTiktoken, BadInputGetsASentence) {
  EXPECT_EQ(Outcome(Read("", PreTokenizer::kLlama3)), "t.model: holds no tokens");
  EXPECT_EQ(Outcome(Read("YQ==")), "t.model: line \"YQ==\" is not a token in base64 and its rank");
  EXPECT_EQ(Outcome(Read("Y 0")), "t.model: line \"Y 0\" is not a token in base64 and its rank");
  EXPECT_EQ(Outcome(Read(" 0")), "t.model: line \" 0\" is not a token in base64 and its rank");
  EXPECT_EQ(Outcome(Read("YQ== 0 ")),
            "t.model: line \"YQ== 0 \" is not a token in base64 and its rank");
  EXPECT_EQ(Outcome(Read("YQ== -1")),
            "t.model: token id -1 is out of bounds; ids run from 0 to 1048575");
  EXPECT_EQ(Outcome(Read("YQ== 0\nYg== 0")),
            "t.model: token id 0 is given to both \"a\" and \"b\"");
  EXPECT_EQ(Outcome(Read("YQ== 0\nYQ== 1")), "t.model: tokens 0 and 1 are both \"a\"");
  EXPECT_EQ(Outcome(Read(std::string(800, 'A') + " 0")),
            "t.model: token 0 is 600 bytes long; at most 512 are allowed");
}

}  // namespace
}  // namespace outrider
