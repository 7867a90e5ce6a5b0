// Reads tokenizer.ggml.* of a GGUF file. Where a key is absent llama.cpp's default holds, unless a
// comment says otherwise.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/tokenizer_gguf_names.h"
#include "common/formats/tokenizers/vocabulary.h"

namespace outrider {
namespace {

using Model = TokenizerSpec::Model;
using SpacePrefix = TokenizerSpec::SpacePrefix;

std::string Key(std::string_view tail) {
  return TokenizerKey(tail);
}

// Files older than the key: these architectures had one pre-tokeniser each.
std::string_view PreNameOfArchitecture(std::string_view architecture) {
  if (architecture == "gpt2") return "gpt-2";
  if (architecture == "qwen2" || architecture == "qwen3") return "qwen2";
  return {};
}

// GGUF has no place for the flags of added tokens. Phi-3's special tokens take the white space
// behind them, but for three.
void WidenPhi3Tokens(TokenizerSpec& spec) {
  for (TokenizerSpec::AddedToken& added : spec.added_tokens) {
    const bool narrow =
        added.text == "<unk>" || added.text == "<s>" || added.text == "<|endoftext|>";
    added.strip_right = added.special && !narrow;
  }
}

// Empty when the file has none.
absl::StatusOr<std::string_view> ReadTextOrEmpty(const GgufFile& file, const std::string& key) {
  if (file.Find(key) == nullptr) return std::string_view();
  return file.GetString(key);
}

// Empty where neither the file nor its architecture says it.
absl::StatusOr<std::string_view> ReadPre(const GgufFile& file) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view pre, ReadTextOrEmpty(file, Key("pre")));
  if (!pre.empty() && pre != "default") return pre;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view architecture,
                            ReadTextOrEmpty(file, "general.architecture"));
  const std::string_view known = PreNameOfArchitecture(architecture);
  return known.empty() ? pre : known;
}

absl::StatusOr<PreName> ReadPreName(const GgufFile& file, const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view pre, ReadPre(file));
  if (const PreName* known = FindPreName(pre.empty() ? "default" : pre)) return *known;
  return Unimplemented(name, ": ", Key("pre"), " is ", Quote(pre), ", which is not supported");
}

absl::StatusOr<Model> ReadModel(const GgufFile& file, std::string_view model,
                                const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view pre, ReadTextOrEmpty(file, Key("pre")));
  if (model == "gemma4" || (model == "gpt2" && MergesCharacters(pre))) {
    return Model::kSentencePieceBpe;
  }
  if (model == "gpt2") return Model::kByteLevelBpe;
  if (model == "llama") return Model::kSentencePieceBpe;
  if (model == "t5") return Model::kUnigram;
  return Unimplemented(name, ": ", Key("model"), " is ", Quote(model),
                       "; only gpt2, llama, gemma4 and t5 are supported");
}

// The array under `key`, or nothing when the file has none; as long as the tokens.
template <typename Element, typename Get>
absl::StatusOr<std::vector<Element>> ReadPerToken(const GgufFile& file, std::string_view tail,
                                                  size_t count, const std::string& name, Get get) {
  std::vector<Element> values;
  if (file.Find(Key(tail)) == nullptr) return values;
  OUTRIDER_ASSIGN_OR_RETURN(values, get(Key(tail)));
  if (values.size() != count) {
    return InvalidArgument(name, ": ", Key(tail), " has ", values.size(), " entries for ", count,
                           " tokens");
  }
  return values;
}

absl::Status ReadTokens(const GgufFile& file, Vocabulary& vocabulary) {
  const std::string& name = vocabulary.name();
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string_view> texts,
                            file.GetStrings(Key("tokens")));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<float> scores,
      (ReadPerToken<float>(file, "scores", texts.size(), name,
                           [&](const std::string& key) { return file.GetFloats(key); })));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<int64_t> kinds,
      (ReadPerToken<int64_t>(file, "token_type", texts.size(), name,
                             [&](const std::string& key) { return file.GetInts(key); })));
  if (vocabulary.spec().model == Model::kUnigram && scores.empty()) {
    return InvalidArgument(name, ": has no ", Key("scores"), ", which a unigram tokenizer needs");
  }
  for (size_t id = 0; id < texts.size(); ++id) {
    const int64_t kind = kinds.empty() ? static_cast<int64_t>(TokenKind::kNormal) : kinds[id];
    if (kind < static_cast<int64_t>(TokenKind::kNormal) ||
        kind > static_cast<int64_t>(TokenKind::kByte)) {
      return InvalidArgument(name, ": token ", id, " (", Quote(texts[id]),
                             ") has the unknown type ", kind, " in ", Key("token_type"));
    }
    OUTRIDER_RETURN_IF_ERROR(vocabulary.Place(static_cast<int64_t>(id), texts[id],
                                              static_cast<TokenKind>(kind),
                                              scores.empty() ? 0 : scores[id]));
  }
  return absl::OkStatus();
}

// Published files of Llama's kind often list merges beside the scores, TinyLlama's for one. There
// the scores rule; merges do where scores say nothing, as in what comes of a tokenizer.json.
bool MergesByScore(std::string_view model, const TokenizerSpec& spec) {
  if (model != "llama") return false;
  const auto is_other = [&](const TokenizerSpec::Token& token) {
    return token.score != spec.tokens.front().score;
  };
  return std::ranges::any_of(spec.tokens, is_other);
}

absl::Status ReadMerges(const GgufFile& file, std::string_view model, Vocabulary& vocabulary) {
  if (MergesByScore(model, vocabulary.spec())) return absl::OkStatus();
  if (file.Find(Key("merges")) == nullptr) {
    if (vocabulary.spec().model != Model::kByteLevelBpe) return absl::OkStatus();
    return InvalidArgument(vocabulary.name(), ": has no ", Key("merges"),
                           ", which a byte-level tokenizer needs");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges,
                            file.GetStrings(Key("merges")));
  for (const std::string_view merge : merges) {
    OUTRIDER_RETURN_IF_ERROR(vocabulary.AddMerge(merge));
  }
  return absl::OkStatus();
}

// `fallback` holds when the key is absent, and only for a vocabulary that has such an id.
absl::Status ReadSpecial(const GgufFile& file, const Vocabulary& vocabulary, std::string_view tail,
                         std::optional<TokenId> fallback, std::optional<TokenId>& target) {
  const std::string key = Key(tail);
  if (file.Find(key) == nullptr) {
    const bool known = fallback && static_cast<size_t>(*fallback) < vocabulary.token_count();
    target = known ? fallback : std::nullopt;
    return absl::OkStatus();
  }
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t id, file.GetUint(key));
  return vocabulary.SetSpecial(key, static_cast<int64_t>(std::min<uint64_t>(id, INT64_MAX)),
                               target);
}

// llama.cpp takes token 11 for bos and eos of a gpt2 file that names none: Falcon's, and a comma to
// everybody else. Such a file has none here, and what the name of its pre-tokenizer implies of a
// bos in front is void.
absl::Status ReadSpecials(const GgufFile& file, Vocabulary& vocabulary) {
  TokenizerSpec& spec = vocabulary.spec();
  std::optional<TokenId> bos, eos, unknown, padding;
  if (spec.model == Model::kSentencePieceBpe) bos = 1, eos = 2, unknown = 0;
  if (spec.model == Model::kUnigram) eos = 1, unknown = 2, padding = 0;
  OUTRIDER_RETURN_IF_ERROR(ReadSpecial(file, vocabulary, "bos_token_id", bos, spec.bos));
  OUTRIDER_RETURN_IF_ERROR(ReadSpecial(file, vocabulary, "eos_token_id", eos, spec.eos));
  OUTRIDER_RETURN_IF_ERROR(ReadSpecial(file, vocabulary, "eot_token_id", {}, spec.eot));
  OUTRIDER_RETURN_IF_ERROR(ReadSpecial(file, vocabulary, "eom_token_id", {}, spec.eom));
  OUTRIDER_RETURN_IF_ERROR(
      ReadSpecial(file, vocabulary, "unknown_token_id", unknown, spec.unknown));
  // Nothing here pads, and converters have written padding ids beyond the vocabulary.
  if (!ReadSpecial(file, vocabulary, "padding_token_id", padding, spec.padding).ok()) {
    spec.padding.reset();
  }
  return absl::OkStatus();
}

absl::Status ReadFlag(const GgufFile& file, std::string_view tail, bool fallback, bool& target) {
  target = fallback;
  if (file.Find(Key(tail)) == nullptr) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(target, file.GetBool(Key(tail)));
  return absl::OkStatus();
}

absl::Status ReadFlags(const GgufFile& file, bool byte_level_bos, const std::string& name,
                       TokenizerSpec& spec) {
  const bool bpe = spec.model == Model::kSentencePieceBpe;
  const bool unigram = spec.model == Model::kUnigram;
  const bool customary_bos = bpe || (byte_level_bos && spec.bos);
  OUTRIDER_RETURN_IF_ERROR(ReadFlag(file, "add_bos_token", customary_bos, spec.add_bos));
  OUTRIDER_RETURN_IF_ERROR(ReadFlag(file, "add_eos_token", unigram, spec.add_eos));
  if (spec.add_bos && !spec.bos) {
    return InvalidArgument(name, ": wants a bos token in front but has no ", Key("bos_token_id"));
  }
  if (spec.add_eos && !spec.eos) {
    return InvalidArgument(name, ": wants an eos token behind but has no ", Key("eos_token_id"));
  }
  return absl::OkStatus();
}

// What only SentencePiece models have. Gemma 4's is of the byte-level kind in its default.
absl::Status ReadNormalizer(const GgufFile& file, std::string_view model, TokenizerSpec& spec) {
  if (spec.model == Model::kByteLevelBpe) return absl::OkStatus();
  bool prefix = false;
  OUTRIDER_RETURN_IF_ERROR(ReadFlag(file, "add_space_prefix", model == "llama", prefix));
  OUTRIDER_RETURN_IF_ERROR(
      ReadFlag(file, "remove_extra_whitespaces", false, spec.remove_extra_whitespace));
  spec.space_prefix = prefix ? SpacePrefix::kAlways : SpacePrefix::kNever;
  spec.space_prefix_once = prefix && spec.remove_extra_whitespace;
  spec.fuse_unknown = true;
  spec.byte_fallback =
      std::any_of(spec.tokens.begin(), spec.tokens.end(),
                  [](const TokenizerSpec::Token& token) { return token.kind == TokenKind::kByte; });
  if (file.Find(Key("precompiled_charsmap")) == nullptr) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes,
                            file.GetInts(Key("precompiled_charsmap")));
  spec.precompiled_charsmap.assign(bytes.begin(), bytes.end());  // written as i8 or u8
  return absl::OkStatus();
}

// What is not done here, and a file may ask for. (add_sep_token asks for nothing: it is between two
// texts that an encoder compares.)
absl::Status CheckUnread(const GgufFile& file, const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kUnread[] = {
      {"suppress_tokens", "some tokens are never to be chosen"},
      {"normalizer.lowercase", "text is to be lowercased"},
      {"normalizer.strip_accents", "letters are to lose their accents"},
  };
  for (const auto& [tail, meaning] : kUnread) {
    const GgufValue* const value = file.Find(Key(tail));
    if (value == nullptr) continue;
    const bool* const flag = std::get_if<bool>(&value->data);
    const GgufArray* const list = std::get_if<GgufArray>(&value->data);
    const bool asks_for_nothing = (flag && !*flag) || (list && list->count == 0);
    if (!asks_for_nothing) {
      return Unimplemented(name, ": ", Key(tail), " is not supported: ", meaning);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTemplates(const GgufFile& file, TokenizerSpec& spec) {
  if (file.Find(kChatTemplateKey) != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, file.GetString(kChatTemplateKey));
    spec.chat_templates["default"] = text;
  }
  if (file.Find(kChatTemplateNamesKey) == nullptr) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string_view> names,
                            file.GetStrings(kChatTemplateNamesKey));
  for (const std::string_view each : names) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text,
                              file.GetString(Concat(kChatTemplateKey, ".", each)));
    spec.chat_templates[std::string(each)] = text;
  }
  return absl::OkStatus();
}

}  // namespace

bool GuessesHowTextIsCut(const GgufFile& file) {
  const absl::StatusOr<std::string_view> model = ReadTextOrEmpty(file, Key("model"));
  if (!model.ok() || *model != "gpt2") return false;
  const absl::StatusOr<std::string_view> pre = ReadPre(file);
  return pre.ok() && pre->empty();
}

absl::StatusOr<TokenizerSpec> TokenizerFromGguf(const GgufFile& file, const std::string& name) {
  if (file.Find(Key("model")) == nullptr || file.Find(Key("tokens")) == nullptr) {
    return NotFound(name, ": carries no tokenizer (", Key("model"), " and ", Key("tokens"), ")");
  }
  TokenizerSpec spec;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view model, file.GetString(Key("model")));
  OUTRIDER_ASSIGN_OR_RETURN(spec.model, ReadModel(file, model, name));
  OUTRIDER_RETURN_IF_ERROR(CheckUnread(file, name));
  bool byte_level_bos = false;
  if (spec.model == Model::kByteLevelBpe) {
    OUTRIDER_ASSIGN_OR_RETURN(const PreName pre, ReadPreName(file, name));
    spec.pre_tokenizer = pre.pre_tokenizer;
    spec.nfc = pre.implies.nfc;
    spec.ignore_merges = pre.implies.ignore_merges;
    byte_level_bos = pre.implies.add_bos;
  }
  Vocabulary vocabulary(name, spec);
  OUTRIDER_RETURN_IF_ERROR(ReadTokens(file, vocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadMerges(file, model, vocabulary));
  OUTRIDER_RETURN_IF_ERROR(vocabulary.AddByKind());
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view architecture,
                            ReadTextOrEmpty(file, "general.architecture"));
  if (architecture == "phi3" && spec.model == Model::kSentencePieceBpe) WidenPhi3Tokens(spec);
  OUTRIDER_RETURN_IF_ERROR(ReadSpecials(file, vocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadFlags(file, byte_level_bos, name, spec));
  OUTRIDER_RETURN_IF_ERROR(ReadNormalizer(file, model, spec));
  OUTRIDER_RETURN_IF_ERROR(ReadTemplates(file, spec));
  OUTRIDER_RETURN_IF_ERROR(vocabulary.Finish());
  return spec;
}

}  // namespace outrider
