// How long one encoding of a text takes, on demand, so that another program's can be timed in
// between.
//
//   tokenizer_speed TOKENIZER TEXT
//
// TOKENIZER is a GGUF file, a tokenizer.json, or a Hugging Face directory.
//
// Prints the ids of the text in one line; then, for each line on standard input, encodes once and
// prints the seconds it took. bench/against_tokenizers drives it.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/text/tokenizer.h"

namespace outrider {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound(path, ": cannot open");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::StatusOr<TokenizerSpec> ReadSpec(const std::string& path) {
  if (std::filesystem::is_directory(path)) return TokenizerFromDirectory(path);
  if (path.ends_with(".gguf")) {
    OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    return TokenizerFromGguf(file, path);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return TokenizerFromJson(json, path);
}

absl::Status Run(const std::string& tokenizer_path, const std::string& text_path) {
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadSpec(tokenizer_path));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                            Tokenizer::Create(std::move(spec)));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, ReadFile(text_path));
  for (const TokenId id : tokenizer->Encode(text, {.add_special = false})) std::cout << id << ' ';
  std::cout << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<TokenId> ids = tokenizer->Encode(text, {.add_special = false});
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    std::cout << elapsed.count() << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenizer_speed TOKENIZER TEXT\n");
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::cerr << "tokenizer_speed: " << outrider::Message(status) << "\n";
  return 1;
}
