// GPT-2's vocab.json ({"Ġthe": 262, ...}) and merges.txt (one "left right" a line, by rank).
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/formats/tokenizers/json_fields.h"
#include "common/formats/tokenizers/text_lines.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/vocabulary.h"

namespace outrider {
namespace {

absl::Status ReadVocab(const nlohmann::json& vocab, Vocabulary& vocabulary) {
  if (!vocab.is_object()) {
    return InvalidArgument(vocabulary.name(), ": the vocabulary is not a JSON object");
  }
  for (const auto& [text, value] : vocab.items()) {
    OUTRIDER_ASSIGN_OR_RETURN(const int64_t id,
                              WholeNumber(value, vocabulary.name() + ": a token's id"));
    OUTRIDER_RETURN_IF_ERROR(vocabulary.Place(id, text));
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(std::string_view text, Vocabulary& vocabulary) {
  return ForEachLine(text, [&vocabulary](std::string_view line) {
    return line.starts_with("#version") ? absl::OkStatus() : vocabulary.AddMerge(line);
  });
}

// GPT-2 trained its one special token into the vocabulary; nothing in the two files says so.
absl::Status AddEndOfText(Vocabulary& vocabulary) {
  const std::optional<TokenId> id = vocabulary.Find("<|endoftext|>");
  if (!id) return absl::OkStatus();
  TokenizerSpec& spec = vocabulary.spec();
  spec.bos = spec.eos = id;
  return vocabulary.Add(*id, {.text = "<|endoftext|>", .special = true});
}

}  // namespace

absl::StatusOr<TokenizerSpec> TokenizerFromVocabAndMerges(std::string_view vocab_json,
                                                          std::string_view merges_txt,
                                                          TokenizerSpec::PreTokenizer pre_tokenizer,
                                                          const std::string& name) {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kByteLevelBpe;
  spec.pre_tokenizer = pre_tokenizer;
  spec.nfc = pre_tokenizer == TokenizerSpec::PreTokenizer::kQwen2;
  Vocabulary vocabulary(name, spec);
  OUTRIDER_ASSIGN_OR_RETURN(const nlohmann::json vocab, ParseJson(vocab_json, name));
  OUTRIDER_RETURN_IF_ERROR(ReadVocab(vocab, vocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadMerges(merges_txt, vocabulary));
  OUTRIDER_RETURN_IF_ERROR(AddEndOfText(vocabulary));
  OUTRIDER_RETURN_IF_ERROR(vocabulary.Finish());
  return spec;
}

}  // namespace outrider
