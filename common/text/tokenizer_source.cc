#include "common/text/tokenizer_source.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "common/base/plain_file.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace outrider {
namespace {

absl::StatusOr<TokenizerSpec> ReadSpec(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return TokenizerFromDirectory(path);
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".gguf") {
    OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    return TokenizerFromGguf(file, path);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  if (extension == ".json") return TokenizerFromJson(text, path);
  if (extension == ".model") return TokenizerFromModelFile(text, path);
  return InvalidArgument(
      path, ": expected a .gguf file, a Hugging Face directory, tokenizer.json or tokenizer.model");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadSpec(path));
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), path);
  return tokenizer;
}

}  // namespace outrider
