#include <string>

#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using PreTokenizer = TokenizerSpec::PreTokenizer;
using SpacePrefix = TokenizerSpec::SpacePrefix;

constexpr char kVocab[] = R"({"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4, "<m>": 5})";

TokenizerSpec Small() {
  return *TokenizerFromVocabAndMerges(kVocab, "a b", PreTokenizer::kGpt2, "v.json");
}

std::string Apply(std::string_view config, TokenizerSpec& spec) {
  return Outcome(ApplyTokenizerConfig(config, "c.json", spec));
}

TEST(TokenizerConfig, DeclaresAndExtends) {
  TokenizerSpec spec = Small();
  ASSERT_EQ(Apply(R"({
    "added_tokens_decoder": {
      "5": {"content": "<m>", "special": true, "lstrip": true},
      "8": {"content": "<|im_end|>", "special": true},
      "7": {"content": "<think>", "special": false, "normalized": false}},
    "bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "<|im_end|>",
    "pad_token": null, "unk_token": "not there",
    "additional_special_tokens": ["</s>", {"content": "<m>"}],
    "add_bos_token": true,
    "chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]
  })",
                  spec),
            "OK");
  ASSERT_EQ(spec.tokens.size(), 9u);
  EXPECT_EQ(spec.tokens[6].kind, TokenKind::kUnused);
  EXPECT_EQ(spec.tokens[7].kind, TokenKind::kUserDefined);
  EXPECT_EQ(spec.tokens[8].text, "<|im_end|>");
  EXPECT_EQ(spec.bos, 3);
  EXPECT_EQ(spec.eos, 8);
  EXPECT_FALSE(spec.padding.has_value());
  EXPECT_FALSE(spec.unknown.has_value());
  EXPECT_TRUE(spec.add_bos);
  EXPECT_EQ(spec.tokens[3].kind, TokenKind::kControl);
  EXPECT_EQ(spec.tokens[4].kind, TokenKind::kControl);
  ASSERT_EQ(spec.added_tokens.size(), 5u);
  EXPECT_TRUE(spec.added_tokens[0].strip_left);  // flags of <m> outlive its second mention
  EXPECT_EQ(spec.chat_templates.at("tool_use"), "B");
  EXPECT_EQ(spec.chat_templates.at("default"), "A");
}

TEST(TokenizerConfig, SayingTheSameTwiceChangesNothing) {
  constexpr char kConfig[] = R"({"added_tokens_decoder": {"8": {"content": "x", "special": true}},
                                 "bos_token": "<s>", "eos_token": "</s>"})";
  TokenizerSpec once = Small();
  ASSERT_EQ(Apply(kConfig, once), "OK");
  TokenizerSpec twice = once;
  ASSERT_EQ(Apply(kConfig, twice), "OK");
  ExpectSameSpec(once, twice);
}

TEST(TokenizerConfig, BadInputGetsASentence) {
  const auto with = [](std::string_view config) {
    TokenizerSpec spec = Small();
    return Apply(config, spec);
  };
  EXPECT_EQ(with("[]"), "c.json: is not a JSON object");
  EXPECT_EQ(with(R"({"added_tokens_decoder": {"x": {"content": "y"}}})"),
            "c.json: added_tokens_decoder.\"x\" is not a token id");
  EXPECT_EQ(with(R"({"added_tokens_decoder": []})"),
            "c.json: added_tokens_decoder is not an object");
  EXPECT_EQ(with(R"({"added_tokens_decoder": {"9": 1}})"), "c.json: added token 9 has no text");
  EXPECT_EQ(with(R"({"added_tokens_decoder": {"1": {"content": "y"}}})"),
            "c.json: added token \"y\" has id 1, which is \"b\" in the vocabulary");
  EXPECT_EQ(with(R"({"bos_token": "zz"})"),
            "c.json: bos_token is \"zz\", which is no token of the vocabulary");
  EXPECT_EQ(with(R"({"bos_token": 3})"),
            "c.json: bos_token is neither a text nor an object with a content");
  EXPECT_EQ(with(R"({"add_eos_token": true})"),
            "c.json: add_eos_token is true but there is no eos_token");
  EXPECT_EQ(with(R"({"add_bos_token": 1})"),
            "c.json: add_bos_token is of type number, not a boolean");
  EXPECT_EQ(with(R"({"chat_template": 1})"),
            "c.json: chat_template is neither a text nor a list of templates");
  EXPECT_EQ(with(R"({"chat_template": [{"template": "x"}]})"),
            "c.json: chat_template.name is missing from an entry");
  EXPECT_EQ(with(R"({"extra_special_tokens": "x"})"),
            "c.json: extra_special_tokens is neither a list nor an object");
}

TEST(TokenizerDirectory, TheClassSaysHowVocabAndMergesCutText) {
  const ScratchDir dir;
  dir.Write("vocab.json", kVocab);
  dir.Write("merges.txt", "a b");
  EXPECT_THAT(Outcome(TokenizerFromDirectory(dir.path())),
              HasSubstr("add the model's tokenizer.json"));
  dir.Write("config.json", R"({"model_type": "gpt2"})");
  EXPECT_EQ(TokenizerFromDirectory(dir.path())->pre_tokenizer, PreTokenizer::kGpt2);
  dir.Write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2TokenizerFast"})");
  const absl::StatusOr<TokenizerSpec> qwen = TokenizerFromDirectory(dir.path());
  EXPECT_EQ(qwen->pre_tokenizer, PreTokenizer::kQwen2);
  EXPECT_TRUE(qwen->nfc);
  dir.Write("tokenizer_config.json",
            R"({"tokenizer_class": "BartTokenizer", "bos_token": "<s>", "eos_token": "</s>"})");
  const absl::StatusOr<TokenizerSpec> bart = TokenizerFromDirectory(dir.path());
  ASSERT_EQ(Outcome(bart), "OK");
  EXPECT_TRUE(bart->add_bos && bart->add_eos);
}

TEST(TokenizerDirectory, TokenizerJsonComesFirstAndTheTemplateFileLast) {
  const ScratchDir dir;
  dir.Write("vocab.json", "{}");
  dir.Write("merges.txt", "");
  dir.Write("tokenizer.json", ReadFile(TestFile("tokenizers/t5.json")));
  dir.Write("special_tokens_map.json", R"({"bos_token": "<s>"})");
  dir.Write("tokenizer_config.json", R"({"chat_template": "old"})");
  dir.Write("chat_template.jinja", "new");
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromDirectory(dir.path());
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, TokenizerSpec::Model::kUnigram);
  EXPECT_EQ(spec->bos, 1);
  EXPECT_EQ(spec->chat_templates.at("default"), "new");
}

TEST(TokenizerDirectory, T5GetsItsSentinels) {
  const ScratchDir dir;
  dir.Write("spiece.model", ReadFile(TestFile("tokenizers/sentencepiece/test_model.model")));
  dir.Write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 100})");
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromDirectory(dir.path());
  ASSERT_EQ(Outcome(spec), "OK");
  ASSERT_EQ(spec->tokens.size(), 1100u);
  EXPECT_EQ(spec->tokens[1000].text, "<extra_id_99>");
  EXPECT_EQ(spec->tokens[1099].text, "<extra_id_0>");
  EXPECT_EQ(spec->tokens[1099].kind, TokenKind::kControl);
}

TEST(TokenizerDirectory, ReadsLlama2WithAndWithoutItsLegacy) {
  const std::string model = ExternalFile("tokenizers/llama2/tokenizer.model");
  OUTRIDER_SKIP_WITHOUT(model);
  const ScratchDir dir;
  dir.Write("tokenizer.model", ReadFile(model));
  absl::StatusOr<TokenizerSpec> spec = TokenizerFromDirectory(dir.path());
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kAlways);
  dir.Write("tokenizer_config.json", R"({"legacy": false, "tokenizer_class": "LlamaTokenizer"})");
  spec = TokenizerFromDirectory(dir.path());
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kFirst);
  EXPECT_TRUE(spec->space_prefix_once);
}

TEST(TokenizerDirectory, TellsATiktokenFileFromASentencePieceModel) {
  const ScratchDir dir;
  dir.Write("tokenizer.model", "YQ== 0\nYg== 1\n");
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromDirectory(dir.path());
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->pre_tokenizer, PreTokenizer::kLlama3);
}

TEST(TokenizerDirectory, ReadsQwen) {
  const std::string path = TestFile("tokenizers/qwen2.5");
  OUTRIDER_SKIP_WITHOUT(path);
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromDirectory(path);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens.size(), 151665u);
  EXPECT_EQ(spec->added_tokens.size(), 22u);
  EXPECT_EQ(spec->eos, 151645);
  EXPECT_FALSE(spec->bos.has_value());
  EXPECT_TRUE(spec->chat_templates.contains("default"));
}

TEST(TokenizerDirectory, SaysWhatItLookedFor) {
  const ScratchDir dir;
  const absl::Status status = TokenizerFromDirectory(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Outcome(status),
            dir.path() +
                ": has no tokenizer: neither tokenizer.json nor tokenizer.model nor "
                "spiece.model nor vocab.json with merges.txt");
}

}  // namespace
}  // namespace outrider
