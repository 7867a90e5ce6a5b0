// tokenizer.json: the model with its vocabulary, and the added tokens. What stands around the model
// (normaliser, pre-tokeniser, post-processor, decoder) is read in tokenizer_json_ends.cc.
#include "common/formats/tokenizers/tokenizer_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/json_fields.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/vocabulary.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using Model = TokenizerSpec::Model;

// "BPE" or "Unigram". Files older than tokenizers 0.10 do not say.
absl::StatusOr<std::string_view> ModelType(const Json& model, const std::string& where) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view type, TextOrEmpty(model, "type", where));
  if (type.empty()) return Member(model, "merges") != nullptr ? "BPE" : "Unigram";
  if (type != "BPE" && type != "Unigram") {
    return Unimplemented(where, "type is ", Quote(type), "; only BPE and Unigram are supported");
  }
  return type;
}

absl::Status RefuseSubwordMarks(const Json& model, const std::string& where) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view mark, TextOrEmpty(model, key, where));
    if (!mark.empty()) {
      return Unimplemented(where, key, " is ", Quote(mark), ", which is not supported");
    }
  }
  return absl::OkStatus();
}

TokenKind KindOf(std::string_view text, const TokenizerSpec& spec) {
  const bool byte = spec.byte_fallback && IsByteToken(text);
  return byte ? TokenKind::kByte : TokenKind::kNormal;
}

// SentencePiece models emit the unknown token; byte-level ones know every byte, and there the file
// only names some special token that will never be needed.
absl::Status SetUnknown(int64_t id, Vocabulary& vocabulary) {
  TokenizerSpec& spec = vocabulary.spec();
  OUTRIDER_RETURN_IF_ERROR(vocabulary.SetSpecial("unknown", id, spec.unknown));
  if (spec.model != Model::kByteLevelBpe) {
    spec.tokens[static_cast<size_t>(id)].kind = TokenKind::kUnknown;
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const Json& model, const std::string& where, Vocabulary& vocabulary) {
  const Json* merges = Member(model, "merges");
  if (merges == nullptr || !merges->is_array()) {
    return InvalidArgument(where, "merges is missing or not an array");
  }
  for (const Json& merge : *merges) {
    if (merge.is_string()) {
      OUTRIDER_RETURN_IF_ERROR(vocabulary.AddMerge(merge.get_ref<const std::string&>()));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      OUTRIDER_RETURN_IF_ERROR(vocabulary.AddMerge(merge[0].get_ref<const std::string&>(),
                                                   merge[1].get_ref<const std::string&>()));
    } else {
      return InvalidArgument(where, "merges[", vocabulary.spec().merges.size(),
                             "] is neither \"left right\" nor [left, right]");
    }
  }
  return absl::OkStatus();
}

// GGUF knows the merges of a SentencePiece model only as scores of what they make.
void ScoreByRank(TokenizerSpec& spec, const Vocabulary& vocabulary) {
  float rank = 0;
  for (const auto& [left, right] : spec.merges) {
    const std::optional<TokenId> joined = vocabulary.Find(
        spec.tokens[static_cast<size_t>(left)].text + spec.tokens[static_cast<size_t>(right)].text);
    TokenizerSpec::Token& token = spec.tokens[static_cast<size_t>(*joined)];
    rank -= 1;
    if (token.score == 0) token.score = rank;
  }
}

absl::Status ReadBpe(const Json& model, const std::string& where, Vocabulary& vocabulary) {
  TokenizerSpec& spec = vocabulary.spec();
  OUTRIDER_RETURN_IF_ERROR(RefuseSubwordMarks(model, where));
  OUTRIDER_ASSIGN_OR_RETURN(spec.fuse_unknown, FlagOr(model, "fuse_unk", false, where));
  OUTRIDER_ASSIGN_OR_RETURN(spec.ignore_merges, FlagOr(model, "ignore_merges", false, where));
  const Json* vocab = Member(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) {
    return InvalidArgument(where, "vocab is missing or not an object");
  }
  for (const auto& [text, value] : vocab->items()) {
    OUTRIDER_ASSIGN_OR_RETURN(const int64_t id, WholeNumber(value, where + "vocab: an id"));
    OUTRIDER_RETURN_IF_ERROR(vocabulary.Place(id, text, KindOf(text, spec)));
  }
  OUTRIDER_RETURN_IF_ERROR(ReadMerges(model, where, vocabulary));
  if (spec.model == Model::kSentencePieceBpe) ScoreByRank(spec, vocabulary);
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view unknown, TextOrEmpty(model, "unk_token", where));
  if (unknown.empty()) return absl::OkStatus();
  const std::optional<TokenId> id = vocabulary.Find(unknown);
  if (!id) return InvalidArgument(where, "unk_token ", Quote(unknown), " is no token");
  return SetUnknown(*id, vocabulary);
}

absl::Status ReadUnigram(const Json& model, const std::string& where, Vocabulary& vocabulary) {
  TokenizerSpec& spec = vocabulary.spec();
  spec.fuse_unknown = true;  // always so in unigram models
  const Json* vocab = Member(model, "vocab");
  if (vocab == nullptr || !vocab->is_array()) {
    return InvalidArgument(where, "vocab is missing or not an array");
  }
  int64_t id = 0;
  for (const Json& entry : *vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return InvalidArgument(where, "vocab[", id, "] is not [text, score]");
    }
    const std::string& text = entry[0].get_ref<const std::string&>();
    OUTRIDER_RETURN_IF_ERROR(
        vocabulary.Place(id++, text, KindOf(text, spec), entry[1].get<float>()));
  }
  const Json* unknown = Member(model, "unk_id");
  if (unknown == nullptr) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t unknown_id, WholeNumber(*unknown, where + "unk_id"));
  return SetUnknown(unknown_id, vocabulary);
}

absl::Status ReadAddedTokens(const Json& json, Vocabulary& vocabulary) {
  const Json* added = Member(json, "added_tokens");
  if (added == nullptr) return absl::OkStatus();
  if (!added->is_array()) {
    return InvalidArgument(vocabulary.name(), ": added_tokens is not an array");
  }
  for (const Json& entry : *added) {
    const Json* id = Member(entry, "id");
    if (id == nullptr) {
      return InvalidArgument(vocabulary.name(), ": an entry of added_tokens has no id");
    }
    OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec::AddedToken token,
                              ParseAddedToken(entry, vocabulary.name() + ": added_tokens."));
    OUTRIDER_ASSIGN_OR_RETURN(const int64_t number,
                              WholeNumber(*id, vocabulary.name() + ": added_tokens.id"));
    OUTRIDER_RETURN_IF_ERROR(vocabulary.Add(number, std::move(token)));
  }
  return absl::OkStatus();
}

// BPE here does not cut text before every U+2581, which changes nothing as long as no token reaches
// across such a cut.
absl::Status CheckCutsAreHarmless(const TokenizerSpec& spec, const std::string& name) {
  for (const TokenizerSpec::Token& token : spec.tokens) {
    if (token.kind == TokenKind::kNormal && token.text.find(kSpaceMark, 1) != std::string::npos) {
      return Unimplemented(name, ": pre_tokenizer Metaspace splits at spaces, but token ",
                           Quote(token.text), " reaches across one, which is not supported");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec::AddedToken> ParseAddedToken(const Json& entry,
                                                          const std::string& where) {
  TokenizerSpec::AddedToken token;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, TextOrEmpty(entry, "content", where));
  token.text = text;
  OUTRIDER_ASSIGN_OR_RETURN(token.special, FlagOr(entry, "special", false, where));
  OUTRIDER_ASSIGN_OR_RETURN(token.single_word, FlagOr(entry, "single_word", false, where));
  OUTRIDER_ASSIGN_OR_RETURN(token.strip_left, FlagOr(entry, "lstrip", false, where));
  OUTRIDER_ASSIGN_OR_RETURN(token.strip_right, FlagOr(entry, "rstrip", false, where));
  OUTRIDER_ASSIGN_OR_RETURN(token.normalized, FlagOr(entry, "normalized", !token.special, where));
  return token;
}

absl::StatusOr<TokenizerSpec> TokenizerFromJson(std::string_view text, const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, ParseJson(text, name));
  const Json* model = Member(json, "model");
  if (model == nullptr || !model->is_object()) {
    return InvalidArgument(name, ": is no tokenizer.json: it has no object named model");
  }
  const std::string where = name + ": model.";
  TokenizerSpec spec;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view type, ModelType(*model, where));
  const bool byte_level = IsByteLevel(json);
  if (byte_level && type == "Unigram") {
    return Unimplemented(name, ": a Unigram model over bytes is not supported");
  }
  spec.model = byte_level        ? Model::kByteLevelBpe
               : (type == "BPE") ? Model::kSentencePieceBpe
                                 : Model::kUnigram;
  OUTRIDER_ASSIGN_OR_RETURN(spec.byte_fallback, FlagOr(*model, "byte_fallback", false, where));
  OUTRIDER_ASSIGN_OR_RETURN(const Ends ends, ReadPipeline(json, name, spec));

  Vocabulary vocabulary(name, spec);
  OUTRIDER_RETURN_IF_ERROR(type == "BPE" ? ReadBpe(*model, where, vocabulary)
                                         : ReadUnigram(*model, where, vocabulary));
  if (spec.cut_at_spaces && spec.model == Model::kSentencePieceBpe) {
    OUTRIDER_RETURN_IF_ERROR(CheckCutsAreHarmless(spec, name));
  }
  OUTRIDER_RETURN_IF_ERROR(ReadAddedTokens(json, vocabulary));
  if (ends.bos) {
    OUTRIDER_RETURN_IF_ERROR(vocabulary.SetSpecial("bos", *ends.bos, spec.bos));
    spec.add_bos = true;
  }
  if (ends.eos) {
    OUTRIDER_RETURN_IF_ERROR(vocabulary.SetSpecial("eos", *ends.eos, spec.eos));
    spec.add_eos = true;
  }
  OUTRIDER_RETURN_IF_ERROR(vocabulary.Finish());
  return spec;
}

}  // namespace outrider
