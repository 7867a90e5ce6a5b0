// The tokenizers of real models, each from the files it is published in.
//
// Licences keep some of them out of the repository: their tests skip where the file is missing, and
// small ones of the same kind, trained for us, are there for them
// (tests/golden/synthetic_tokenizers.py).
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/text/tokenizer.h"
#include "tests/test_files.h"

namespace outrider {

struct Family {
  std::string name;
  std::string path;  // without it there is nothing to test
  std::function<absl::StatusOr<TokenizerSpec>(const std::string& path)> read;
  bool parse_special = true;  // SentencePiece itself takes "<s>" in a text for three characters
};

// What a failing test shows.
inline void PrintTo(const Family& family, std::ostream* out) {
  *out << family.name;
}

inline absl::StatusOr<TokenizerSpec> ReadGguf(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  return TokenizerFromGguf(file, path);
}

inline Family Gpt2() {
  return {"gpt2", TestFile("tokenizers/gpt2/vocab.json"), [](const std::string& path) {
            return TokenizerFromVocabAndMerges(ReadFile(path),
                                               ReadFile(TestFile("tokenizers/gpt2/merges.txt")),
                                               TokenizerSpec::PreTokenizer::kGpt2, path);
          }};
}

inline Family Gpt2Gguf() {
  return {"gpt2_gguf", ExternalFile("tokenizers/llama.cpp/ggml-vocab-gpt-2.gguf"), ReadGguf};
}

inline Family Llama2() {
  return {"llama2", ExternalFile("tokenizers/llama2/tokenizer.model"),
          [](const std::string& path) { return TokenizerFromSentencePiece(ReadFile(path), path); }};
}

inline Family Llama2Gguf() {
  return {"llama2_gguf", ExternalFile("tokenizers/llama.cpp/ggml-vocab-llama-spm.gguf"), ReadGguf};
}

inline Family Llama3() {
  return {"llama3", ExternalFile("tokenizers/llama3/tokenizer.model"), [](const std::string& path) {
            return TokenizerFromTiktoken(ReadFile(path), TokenizerSpec::PreTokenizer::kLlama3,
                                         path);
          }};
}

inline Family Qwen2() {
  return {"qwen2", TestFile("tokenizers/qwen2.5"), TokenizerFromDirectory};
}

inline Family GptNeox() {
  return {"gpt_neox", TestFile("tokenizers/gpt-neox-20b/tokenizer.json"),
          [](const std::string& path) { return TokenizerFromJson(ReadFile(path), path); }};
}

inline Family T5() {
  return {"t5", TestFile("tokenizers/t5.json"),
          [](const std::string& path) { return TokenizerFromJson(ReadFile(path), path); }};
}

inline absl::StatusOr<TokenizerSpec> ReadJson(const std::string& path) {
  return TokenizerFromJson(ReadFile(path), path);
}

inline absl::StatusOr<TokenizerSpec> ReadModel(const std::string& path) {
  return TokenizerFromModelFile(ReadFile(path), path);
}

// Those of tests/golden/synthetic_tokenizers.py; `name` is that of the ids.
inline std::vector<Family> SyntheticFamilies() {
  const auto file = [](const char* name) {
    return TestFile(std::string("tokenizers/synthetic/") + name);
  };
  return {{"llama2", file("llama2.model"), ReadModel, /*parse_special=*/false},
          {"gemma_model", file("gemma.model"), ReadModel, /*parse_special=*/false},
          {"gemma", file("gemma.json"), ReadJson},
          {"gemma", file("gemma4.gguf"), ReadGguf},
          {"phi3", file("phi3.json"), ReadJson},
          {"phi3", file("phi3.gguf"), ReadGguf},
          {"llama3", file("llama3.model"), ReadModel}};
}

inline absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const Family& family) {
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec spec, family.read(family.path));
  return Tokenizer::Create(std::move(spec));
}

}  // namespace outrider
