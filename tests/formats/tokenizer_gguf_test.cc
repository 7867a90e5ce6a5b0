#include <functional>
#include <string>
#include <string_view>

#include "common/formats/containers/gguf_file.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/formats/tokenizer_gguf_keys.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using Model = TokenizerSpec::Model;
using PreTokenizer = TokenizerSpec::PreTokenizer;
using SpacePrefix = TokenizerSpec::SpacePrefix;

TEST(TokenizerGguf, ReadsByteLevelBpe) {
  const absl::StatusOr<TokenizerSpec> spec = ByteLevelKeys().Read();
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kByteLevelBpe);
  EXPECT_EQ(spec->pre_tokenizer, PreTokenizer::kGpt2);
  EXPECT_EQ(spec->tokens[2].text, " ");
  EXPECT_EQ(spec->tokens[5].text, "  ");  // added tokens are spelled plainly
  EXPECT_EQ(spec->tokens[6].kind, TokenKind::kUnused);
  EXPECT_THAT(spec->merges, ElementsAre(Pair(0, 1)));
  ASSERT_EQ(spec->added_tokens.size(), 2u);
  EXPECT_TRUE(spec->added_tokens[0].special);
  EXPECT_FALSE(spec->added_tokens[1].special);
  EXPECT_FALSE(spec->bos.has_value());
  EXPECT_FALSE(spec->add_bos);
}

TEST(TokenizerGguf, PreNamesSayHowTextIsCutAndMore) {
  const auto with = [](const char* pre) {
    return *ByteLevelKeys()
                .Text("tokenizer.ggml.pre", pre)
                .Id("tokenizer.ggml.bos_token_id", 4)
                .Read();
  };
  EXPECT_EQ(with("llama-bpe").pre_tokenizer, PreTokenizer::kLlama3);
  EXPECT_TRUE(with("llama-bpe").ignore_merges);
  EXPECT_TRUE(with("llama-bpe").add_bos);
  EXPECT_FALSE(with("dbrx").ignore_merges);
  EXPECT_EQ(with("qwen2").pre_tokenizer, PreTokenizer::kQwen2);
  EXPECT_TRUE(with("qwen2").nfc);
  EXPECT_EQ(with("olmo").pre_tokenizer, PreTokenizer::kGpt2);
  EXPECT_TRUE(with("olmo").nfc);
  EXPECT_EQ(with("default").pre_tokenizer, PreTokenizer::kDefault);
  EXPECT_EQ(with("refact").pre_tokenizer, PreTokenizer::kSmollm);
  EXPECT_TRUE(with("tekken").add_bos);
  EXPECT_TRUE(with("minicpm5").ignore_merges);
  EXPECT_FALSE(with("minicpm5").add_bos);
  EXPECT_TRUE(with("glm4").ignore_merges);
  EXPECT_TRUE(with("glm5").ignore_merges);
  EXPECT_FALSE(with("chatglm-bpe").ignore_merges);
  EXPECT_EQ(Outcome(ByteLevelKeys().Text("tokenizer.ggml.pre", "whitespace").Read()),
            "t.gguf: tokenizer.ggml.pre is \"whitespace\", which is not supported");
}

TEST(TokenizerGguf, AnOldFilesPreTokenizerFollowsFromTheArchitectureOrIsTheDefault) {
  TokenizerKeys keys = ByteLevelKeys().Without("tokenizer.ggml.pre");
  EXPECT_EQ(keys.Read()->pre_tokenizer, PreTokenizer::kDefault);
  EXPECT_EQ(keys.Text("general.architecture", "gpt2").Read()->pre_tokenizer, PreTokenizer::kGpt2);
  EXPECT_EQ(keys.Text("general.architecture", "qwen2").Read()->pre_tokenizer, PreTokenizer::kQwen2);
  EXPECT_EQ(keys.Text("general.architecture", "llama").Read()->pre_tokenizer,
            PreTokenizer::kDefault);
  EXPECT_EQ(keys.Text("tokenizer.ggml.pre", "").Read()->pre_tokenizer, PreTokenizer::kDefault);
}

TEST(TokenizerGguf, ANameImpliesABosOnlyWhereThereIsOne) {
  for (const char* const pre : {"llama-bpe", "tekken"}) {
    TokenizerKeys keys = ByteLevelKeys().Text("tokenizer.ggml.pre", pre);
    ASSERT_EQ(Outcome(keys.Read()), "OK") << pre;
    EXPECT_FALSE(keys.Read()->add_bos) << pre;
    EXPECT_TRUE(keys.Id("tokenizer.ggml.bos_token_id", 4).Read()->add_bos) << pre;
  }
}

TEST(TokenizerGguf, ReadsSentencePieceBpeWithItsDefaults) {
  const absl::StatusOr<TokenizerSpec> spec = SentencePieceKeys().Read();
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kSentencePieceBpe);
  EXPECT_EQ(spec->bos, 1);
  EXPECT_EQ(spec->eos, 2);
  EXPECT_EQ(spec->unknown, 0);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_FALSE(spec->add_eos);
  EXPECT_TRUE(spec->byte_fallback);
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kAlways);
  EXPECT_EQ(spec->tokens[4].score, -2);
  EXPECT_EQ(SentencePieceKeys().Flag("tokenizer.ggml.add_space_prefix", false).Read()->space_prefix,
            SpacePrefix::kNever);
}

// As TinyLlama is published.
TEST(TokenizerGguf, ScoresRuleOverMergesThatStandBesideThem) {
  const absl::StatusOr<TokenizerSpec> spec =
      SentencePieceKeys().Texts("tokenizer.ggml.merges", {"▁ a"}).Read();
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_TRUE(spec->merges.empty());
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kAlways);
}

TEST(TokenizerGguf, MergesRuleWhereScoresSayNothing) {
  TokenizerKeys keys = SentencePieceKeys().Texts("tokenizer.ggml.merges", {"▁ a"});
  for (const TokenizerKeys& each :
       {TokenizerKeys(keys).Scores({0, 0, 0, 0, 0, 0, 0}), keys.Without("tokenizer.ggml.scores")}) {
    const absl::StatusOr<TokenizerSpec> spec = each.Read();
    ASSERT_EQ(Outcome(spec), "OK");
    EXPECT_THAT(spec->merges, ElementsAre(Pair(4, 6)));
    EXPECT_EQ(spec->space_prefix, SpacePrefix::kAlways);
  }
}

TEST(TokenizerGguf, Gemma4ListsItsMergesAndPutsNoSpaceInFront) {
  const absl::StatusOr<TokenizerSpec> spec = SentencePieceKeys()
                                                 .Text("tokenizer.ggml.model", "gemma4")
                                                 .Texts("tokenizer.ggml.merges", {"▁ a"})
                                                 .Read();
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_THAT(spec->merges, ElementsAre(Pair(4, 6)));
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kNever);
}

TEST(TokenizerGguf, ReadsUnigramWithItsDefaults) {
  const absl::StatusOr<TokenizerSpec> spec =
      SentencePieceKeys().Text("tokenizer.ggml.model", "t5").Read();
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kUnigram);
  EXPECT_EQ(spec->eos, 1);
  EXPECT_EQ(spec->unknown, 2);
  EXPECT_EQ(spec->padding, 0);
  EXPECT_TRUE(spec->add_eos);
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kNever);
}

TEST(TokenizerGguf, ReadsChatTemplates) {
  const absl::StatusOr<TokenizerSpec> spec = ByteLevelKeys()
                                                 .Text("tokenizer.chat_template", "A")
                                                 .Texts("tokenizer.chat_templates", {"tool_use"})
                                                 .Text("tokenizer.chat_template.tool_use", "B")
                                                 .Read();
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->chat_templates.at("default"), "A");
  EXPECT_EQ(spec->chat_templates.at("tool_use"), "B");
}

TEST(TokenizerGguf, WhatIsNotDoneIsRefusedWhereItIsAskedFor) {
  EXPECT_EQ(Outcome(ByteLevelKeys().Ids("tokenizer.ggml.suppress_tokens", {2}).Read()),
            "t.gguf: tokenizer.ggml.suppress_tokens is not supported: some tokens are never to be "
            "chosen");
  EXPECT_EQ(Outcome(ByteLevelKeys().Flag("tokenizer.ggml.normalizer.lowercase", true).Read()),
            "t.gguf: tokenizer.ggml.normalizer.lowercase is not supported: text is to be "
            "lowercased");
  EXPECT_EQ(
      Outcome(SentencePieceKeys().Flag("tokenizer.ggml.normalizer.strip_accents", true).Read()),
      "t.gguf: tokenizer.ggml.normalizer.strip_accents is not supported: letters are to lose "
      "their accents");
  EXPECT_EQ(Outcome(ByteLevelKeys()
                        .Ids("tokenizer.ggml.suppress_tokens", {})
                        .Flag("tokenizer.ggml.normalizer.lowercase", false)
                        .Flag("tokenizer.ggml.normalizer.strip_accents", false)
                        .Flag("tokenizer.ggml.add_sep_token", true)
                        .Read()),
            "OK");
}

TEST(TokenizerGguf, AnEmptyTextIsPadding) {
  TokenizerKeys keys = ByteLevelKeys();
  keys.Texts("tokenizer.ggml.tokens", {"a", "b", "Ġ", "ab", "<|x|>", "", ""})
      .Kinds({1, 1, 1, 1, 3, 1, 5});
  const absl::StatusOr<TokenizerSpec> spec = keys.Read();
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens[5].kind, TokenKind::kUnused);
  EXPECT_EQ(spec->tokens[5].text, "[PAD5]");
}

TEST(TokenizerGguf, BadInputGetsASentence) {
  const std::string tokens = "tokenizer.ggml.tokens";
  EXPECT_EQ(Outcome(TokenizerKeys().Read()),
            "t.gguf: carries no tokenizer (tokenizer.ggml.model and tokenizer.ggml.tokens)");
  EXPECT_EQ(TokenizerKeys().Read().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      Outcome(ByteLevelKeys().Text("tokenizer.ggml.model", "rwkv").Read()),
      "t.gguf: tokenizer.ggml.model is \"rwkv\"; only gpt2, llama, gemma4 and t5 are supported");
  EXPECT_EQ(Outcome(ByteLevelKeys().Kinds({1, 1}).Read()),
            "t.gguf: tokenizer.ggml.token_type has 2 entries for 7 tokens");
  EXPECT_EQ(Outcome(SentencePieceKeys().Scores({1}).Read()),
            "t.gguf: tokenizer.ggml.scores has 1 entries for 7 tokens");
  EXPECT_EQ(Outcome(ByteLevelKeys().Kinds({1, 1, 1, 1, 1, 9, 1}).Read()),
            "t.gguf: token 5 (\"  \") has the unknown type 9 in tokenizer.ggml.token_type");
  EXPECT_EQ(Outcome(ByteLevelKeys().Kinds({1, 1, 1, 1, 1, 1, 1}).Read()),
            "t.gguf: token 5 (\"  \") has characters outside the byte alphabet of its model");
  EXPECT_EQ(Outcome(ByteLevelKeys().Texts(tokens, {"a", "b", "Ġ", "ab", "a", "  ", "z"}).Read()),
            "t.gguf: tokens 0 and 4 are both \"a\"");
  EXPECT_EQ(Outcome(ByteLevelKeys().Without("tokenizer.ggml.merges").Read()),
            "t.gguf: has no tokenizer.ggml.merges, which a byte-level tokenizer needs");
  EXPECT_EQ(Outcome(ByteLevelKeys().Texts("tokenizer.ggml.merges", {"a q"}).Read()),
            "t.gguf: merge 0 (\"a\" \"q\") uses \"q\", which is no token");
  EXPECT_EQ(Outcome(ByteLevelKeys().Id("tokenizer.ggml.eos_token_id", 7).Read()),
            "t.gguf: the tokenizer.ggml.eos_token_id token is 7, but the vocabulary has 7 tokens");
  EXPECT_EQ(Outcome(ByteLevelKeys().Flag("tokenizer.ggml.add_bos_token", true).Read()),
            "t.gguf: wants a bos token in front but has no tokenizer.ggml.bos_token_id");
  EXPECT_EQ(Outcome(SentencePieceKeys()
                        .Text("tokenizer.ggml.model", "t5")
                        .Without("tokenizer.ggml.scores")
                        .Read()),
            "t.gguf: has no tokenizer.ggml.scores, which a unigram tokenizer needs");
  EXPECT_EQ(Outcome(ByteLevelKeys().Texts("tokenizer.chat_templates", {"x"}).Read()),
            "t.gguf: has no key \"tokenizer.chat_template.x\"");
}

// The same vocabularies as llama.cpp's converter wrote them.
TEST(TokenizerGguf, AgreesWithLlamaCppsConverter) {
  const struct {
    const char* gguf;
    std::function<absl::StatusOr<TokenizerSpec>()> read;
  } pairs[] = {
      {"tokenizers/llama.cpp/ggml-vocab-gpt-2.gguf",
       [] {
         return TokenizerFromVocabAndMerges(ReadFile(TestFile("tokenizers/gpt2/vocab.json")),
                                            ReadFile(TestFile("tokenizers/gpt2/merges.txt")),
                                            PreTokenizer::kGpt2, "gpt2");
       }},
      {"tokenizers/llama.cpp/ggml-vocab-llama-spm.gguf",
       [] {
         return TokenizerFromSentencePiece(
             ReadFile(ExternalFile("tokenizers/llama2/tokenizer.model")), "llama2");
       }},
  };
  for (const auto& [name, read] : pairs) {
    const std::string path = ExternalFile(name);
    OUTRIDER_SKIP_WITHOUT(path);
    const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
    ASSERT_EQ(Outcome(file.status()), "OK");
    const absl::StatusOr<TokenizerSpec> theirs = TokenizerFromGguf(*file, path);
    const absl::StatusOr<TokenizerSpec> ours = read();
    ASSERT_EQ(Outcome(theirs), "OK");
    ASSERT_EQ(Outcome(ours), "OK");
    ExpectSameSpec(*theirs, *ours);
  }
}

}  // namespace
}  // namespace outrider
