#include <string>

#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/tokenizer_gguf_keys.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using PreTokenizer = TokenizerSpec::PreTokenizer;

TokenizerSpec ThroughGguf(const TokenizerSpec& spec) {
  const ScratchDir dir;
  const std::string path = dir.File("t.gguf");
  GgufWriter writer;
  AddTokenizerMetadata(spec, writer);
  EXPECT_EQ(Outcome(writer.Begin(path)), "OK");
  EXPECT_EQ(Outcome(writer.Commit()), "OK");
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  EXPECT_EQ(Outcome(file.status()), "OK");
  const absl::StatusOr<TokenizerSpec> read = TokenizerFromGguf(*file, path);
  EXPECT_EQ(Outcome(read), "OK");
  return *read;
}

TEST(TokenizerGgufWrite, WhatIsWrittenReadsBackTheSame) {
  for (TokenizerKeys keys :
       {ByteLevelKeys(), ByteLevelKeys().Text("tokenizer.ggml.pre", "olmo"),
        ByteLevelKeys().Text("tokenizer.ggml.pre", "qwen2"),
        ByteLevelKeys().Text("tokenizer.ggml.pre", "dbrx"),
        ByteLevelKeys()
            .Text("tokenizer.ggml.pre", "llama-bpe")
            .Id("tokenizer.ggml.bos_token_id", 4)
            .Id("tokenizer.ggml.eot_token_id", 4)
            .Id("tokenizer.ggml.eom_token_id", 4),
        SentencePieceKeys(), SentencePieceKeys().Text("tokenizer.ggml.model", "t5"),
        SentencePieceKeys()
            .Texts("tokenizer.ggml.merges", {"▁ a"})
            .Scores({0, 0, 0, 0, 0, 0, 0})
            .Flag("tokenizer.ggml.add_space_prefix", false)
            .Flag("tokenizer.ggml.add_eos_token", true)}) {
    keys.Text("tokenizer.chat_template", "A")
        .Texts("tokenizer.chat_templates", {"rag"})
        .Text("tokenizer.chat_template.rag", "B");
    const absl::StatusOr<TokenizerSpec> spec = keys.Read();
    ASSERT_EQ(Outcome(spec), "OK");
    ExpectSameSpec(*spec, ThroughGguf(*spec));
  }
}

TEST(TokenizerGgufWrite, Gpt2SurvivesTheWayThroughGguf) {
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromVocabAndMerges(
      ReadFile(TestFile("tokenizers/gpt2/vocab.json")),
      ReadFile(TestFile("tokenizers/gpt2/merges.txt")), PreTokenizer::kGpt2, "gpt2");
  ASSERT_EQ(Outcome(spec), "OK");
  ExpectSameSpec(*spec, ThroughGguf(*spec));
}

TEST(TokenizerGgufWrite, AUnigramModelSurvivesTheWayThroughGguf) {
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromSentencePiece(
      ReadFile(TestFile("tokenizers/sentencepiece/test_model.model")), "test_model.model");
  ASSERT_EQ(Outcome(spec), "OK");
  TokenizerSpec expected = *spec;
  expected.padding = 0;  // the default of t5 files, where SentencePiece has none
  ExpectSameSpec(expected, ThroughGguf(*spec));
}

}  // namespace
}  // namespace outrider
