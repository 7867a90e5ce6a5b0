// A Hugging Face directory's tokenizer, from whichever of its files there are.
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/plain_file.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/json_fields.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/vocabulary.h"

namespace outrider {
namespace {

using PreTokenizer = TokenizerSpec::PreTokenizer;

class Directory {
 public:
  explicit Directory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view file) const { return Concat(path_, "/", file); }
  bool Has(std::string_view file) const {
    std::error_code error;
    return std::filesystem::exists(PathOf(file), error);
  }
  absl::StatusOr<std::string> Read(std::string_view file) const {
    return ReadWholeFile(PathOf(file));
  }

  // A JSON file of the directory; an empty object when there is none.
  absl::StatusOr<nlohmann::json> Json(std::string_view file) const {
    if (!Has(file)) return nlohmann::json::object();
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, Read(file));
    return ParseJson(text, PathOf(file));
  }

 private:
  const std::string path_;
};

absl::StatusOr<TokenizerSpec> FromJsonFile(const Directory& directory) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string file, directory.Read("tokenizer.json"));
  return TokenizerFromJson(file, directory.PathOf("tokenizer.json"));
}

// T5 reserves a hundred sentinels behind its pieces, highest number first.
absl::Status AddSentinels(const nlohmann::json& config, const std::string& name,
                          TokenizerSpec& spec) {
  int64_t count = 100;
  if (const nlohmann::json* extra = Member(config, "extra_ids")) {
    OUTRIDER_ASSIGN_OR_RETURN(count, WholeNumber(*extra, name + ": extra_ids"));
  }
  if (count < 0 || count > kMaxTokens) {
    return InvalidArgument(name, ": extra_ids is ", count, "; allowed are 0 to ", kMaxTokens);
  }
  Vocabulary vocabulary(name, spec);
  while (count-- > 0) {
    std::string text = Concat("<extra_id_", count, ">");
    if (vocabulary.Find(text)) continue;
    OUTRIDER_RETURN_IF_ERROR(vocabulary.Add(static_cast<int64_t>(vocabulary.token_count()),
                                            {.text = std::move(text), .special = true}));
  }
  return vocabulary.Finish();
}

// What tokenizer_config.json changes about a SentencePiece model, as transformers converts it.
absl::Status AdjustSentencePiece(const nlohmann::json& config, const std::string& name,
                                 TokenizerSpec& spec) {
  const std::string where = name + ": ";
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view type,
                            TextOrEmpty(config, "tokenizer_class", where));
  if (type.starts_with("T5Tokenizer")) OUTRIDER_RETURN_IF_ERROR(AddSentinels(config, name, spec));
  if (spec.model != TokenizerSpec::Model::kSentencePieceBpe) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const bool legacy, FlagOr(config, "legacy", true, where));
  OUTRIDER_ASSIGN_OR_RETURN(const bool prefix,
                            FlagOr(config, "add_prefix_space",
                                   spec.space_prefix != TokenizerSpec::SpacePrefix::kNever, where));
  if (!prefix) {
    spec.space_prefix = TokenizerSpec::SpacePrefix::kNever;
  } else if (!legacy) {
    spec.space_prefix = TokenizerSpec::SpacePrefix::kFirst;
    spec.space_prefix_once = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerSpec> FromModelFile(const Directory& directory, std::string_view file,
                                            const nlohmann::json& config) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, directory.Read(file));
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec spec,
                            TokenizerFromModelFile(text, directory.PathOf(file)));
  OUTRIDER_RETURN_IF_ERROR(
      AdjustSentencePiece(config, directory.PathOf("tokenizer_config.json"), spec));
  return spec;
}

// The pair of files does not say how text is cut; the class of the tokenizer or of the model does.
absl::StatusOr<PreTokenizer> PreTokenizerOf(const Directory& directory,
                                            const nlohmann::json& config) {
  OUTRIDER_ASSIGN_OR_RETURN(
      std::string_view type,
      TextOrEmpty(config, "tokenizer_class", directory.PathOf("tokenizer_config.json: ")));
  if (type.ends_with("Fast")) type.remove_suffix(4);
  if (type == "GPT2Tokenizer" || type == "BartTokenizer" || type == "RobertaTokenizer") {
    return PreTokenizer::kGpt2;
  }
  if (type == "Qwen2Tokenizer") return PreTokenizer::kQwen2;
  OUTRIDER_ASSIGN_OR_RETURN(const nlohmann::json model, directory.Json("config.json"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view model_type,
                            TextOrEmpty(model, "model_type", directory.PathOf("config.json: ")));
  if (model_type == "gpt2" || model_type == "bart") return PreTokenizer::kGpt2;
  if (model_type.starts_with("qwen2") || model_type.starts_with("qwen3")) {
    return PreTokenizer::kQwen2;
  }
  return Unimplemented(directory.path(),
                       ": has vocab.json and merges.txt, but neither tokenizer_class ", Quote(type),
                       " nor model_type ", Quote(model_type),
                       " says how text is cut; add the model's tokenizer.json");
}

// BART and RoBERTa stand every text between bos and eos.
bool PutsBothEnds(const nlohmann::json& config) {
  const absl::StatusOr<std::string_view> type = TextOrEmpty(config, "tokenizer_class", "");
  return type.ok() && (type->starts_with("Bart") || type->starts_with("Roberta"));
}

absl::StatusOr<TokenizerSpec> FromVocabAndMerges(const Directory& directory,
                                                 const nlohmann::json& config) {
  OUTRIDER_ASSIGN_OR_RETURN(const PreTokenizer pre_tokenizer, PreTokenizerOf(directory, config));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string vocab, directory.Read("vocab.json"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string merges, directory.Read("merges.txt"));
  return TokenizerFromVocabAndMerges(vocab, merges, pre_tokenizer,
                                     directory.PathOf("vocab.json and merges.txt"));
}

absl::StatusOr<TokenizerSpec> FromAnyFile(const Directory& directory,
                                          const nlohmann::json& config) {
  if (directory.Has("tokenizer.json")) return FromJsonFile(directory);
  for (const char* file : {"tokenizer.model", "spiece.model"}) {
    if (directory.Has(file)) return FromModelFile(directory, file, config);
  }
  if (directory.Has("vocab.json") && directory.Has("merges.txt")) {
    return FromVocabAndMerges(directory, config);
  }
  return NotFound(directory.path(),
                  ": has no tokenizer: neither tokenizer.json nor tokenizer.model nor spiece.model "
                  "nor vocab.json with merges.txt");
}

}  // namespace

// A SentencePiece model begins with its first piece: field 1, length-delimited.
absl::StatusOr<TokenizerSpec> TokenizerFromModelFile(std::string_view bytes,
                                                     const std::string& name) {
  return bytes.starts_with('\x0A') ? TokenizerFromSentencePiece(bytes, name)
                                   : TokenizerFromTiktoken(bytes, PreTokenizer::kLlama3, name);
}

absl::StatusOr<TokenizerSpec> TokenizerFromDirectory(const std::string& path) {
  const Directory directory(path);
  OUTRIDER_ASSIGN_OR_RETURN(const nlohmann::json config, directory.Json("tokenizer_config.json"));
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec spec, FromAnyFile(directory, config));
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    if (!directory.Has(file)) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, directory.Read(file));
    OUTRIDER_RETURN_IF_ERROR(ApplyTokenizerConfig(text, directory.PathOf(file), spec));
  }
  if (!directory.Has("tokenizer.json") && PutsBothEnds(config)) {
    spec.add_bos = spec.bos.has_value();
    spec.add_eos = spec.eos.has_value();
  }
  if (directory.Has("chat_template.jinja")) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, directory.Read("chat_template.jinja"));
    spec.chat_templates["default"] = text;
  }
  return spec;
}

}  // namespace outrider
