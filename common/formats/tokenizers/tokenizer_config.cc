// tokenizer_config.json, and special_tokens_map.json with its subset of the same keys: what Hugging
// Face keeps beside a vocabulary.
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/json_fields.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/tokenizer_json.h"
#include "common/formats/tokenizers/vocabulary.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// {"32000": {"content": "<|im_end|>", "special": true, ...}, ...}
absl::Status ReadAddedTokens(const Json& config, Vocabulary& vocabulary) {
  const Json* decoder = Member(config, "added_tokens_decoder");
  if (decoder == nullptr) return absl::OkStatus();
  const std::string where = vocabulary.name() + ": added_tokens_decoder.";
  if (!decoder->is_object()) {
    return InvalidArgument(vocabulary.name(), ": added_tokens_decoder is not an object");
  }
  for (const auto& [digits, entry] : decoder->items()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return InvalidArgument(where, Quote(digits), " is not a token id");
    }
    OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec::AddedToken token, ParseAddedToken(entry, where));
    OUTRIDER_RETURN_IF_ERROR(vocabulary.Add(id, std::move(token)));
  }
  return absl::OkStatus();
}

// A special token is named by its text, or by an object that has it as "content". Empty: none.
absl::StatusOr<std::string> SpecialText(const Json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  const Json* content = Member(value, "content");
  if (content != nullptr && content->is_string()) return content->get<std::string>();
  return InvalidArgument(where, " is neither a text nor an object with a content");
}

// Makes sure the text is matched as a special token. Its id, or nothing when the vocabulary lacks
// it: transformers would then invent an id, for which the model has no weights.
absl::StatusOr<std::optional<TokenId>> DeclareSpecial(std::string_view text,
                                                      Vocabulary& vocabulary) {
  const std::optional<TokenId> id = vocabulary.Find(text);
  if (!id || vocabulary.IsAdded(*id)) return id;
  OUTRIDER_RETURN_IF_ERROR(vocabulary.Add(*id, {.text = std::string(text), .special = true}));
  return id;
}

absl::Status ReadRoles(const Json& config, Vocabulary& vocabulary) {
  TokenizerSpec& spec = vocabulary.spec();
  const struct {
    const char* key;
    std::optional<TokenId>* target;  // null: a special token that no code of ours asks for
    bool needed;
  } roles[] = {
      {"bos_token", &spec.bos, true},      {"eos_token", &spec.eos, true},
      {"unk_token", &spec.unknown, false}, {"pad_token", &spec.padding, false},
      {"cls_token", nullptr, false},       {"sep_token", nullptr, false},
      {"mask_token", nullptr, false},
  };
  for (const auto& [key, target, needed] : roles) {
    const Json* value = Member(config, key);
    if (value == nullptr) continue;
    const std::string where = Concat(vocabulary.name(), ": ", key);
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, SpecialText(*value, where));
    if (text.empty()) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<TokenId> id, DeclareSpecial(text, vocabulary));
    if (!id && needed) {
      return InvalidArgument(where, " is ", Quote(text), ", which is no token of the vocabulary");
    }
    if (id && target != nullptr) *target = id;
  }
  return absl::OkStatus();
}

// A list, or since transformers 4.47 an object of names to texts.
absl::Status ReadMoreSpecials(const Json& config, const char* key, Vocabulary& vocabulary) {
  const Json* list = Member(config, key);
  if (list == nullptr) return absl::OkStatus();
  const std::string where = Concat(vocabulary.name(), ": ", key);
  if (!list->is_structured()) return InvalidArgument(where, " is neither a list nor an object");
  for (const Json& value : *list) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, SpecialText(value, where));
    OUTRIDER_RETURN_IF_ERROR(DeclareSpecial(text, vocabulary).status());
  }
  return absl::OkStatus();
}

absl::Status ReadEnds(const Json& config, const std::string& name, TokenizerSpec& spec) {
  const std::string where = name + ": ";
  OUTRIDER_ASSIGN_OR_RETURN(spec.add_bos, FlagOr(config, "add_bos_token", spec.add_bos, where));
  OUTRIDER_ASSIGN_OR_RETURN(spec.add_eos, FlagOr(config, "add_eos_token", spec.add_eos, where));
  if (spec.add_bos && !spec.bos) {
    return InvalidArgument(where, "add_bos_token is true but there is no bos_token");
  }
  if (spec.add_eos && !spec.eos) {
    return InvalidArgument(where, "add_eos_token is true but there is no eos_token");
  }
  return absl::OkStatus();
}

// One template, or a list of {"name": ..., "template": ...}.
absl::Status ReadTemplates(const Json& config, const std::string& name, TokenizerSpec& spec) {
  const Json* templates = Member(config, "chat_template");
  if (templates == nullptr) return absl::OkStatus();
  const std::string where = name + ": chat_template.";
  if (templates->is_string()) {
    spec.chat_templates["default"] = templates->get<std::string>();
    return absl::OkStatus();
  }
  if (!templates->is_array()) {
    return InvalidArgument(name, ": chat_template is neither a text nor a list of templates");
  }
  for (const Json& entry : *templates) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view title, TextOrEmpty(entry, "name", where));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, TextOrEmpty(entry, "template", where));
    if (title.empty()) return InvalidArgument(where, "name is missing from an entry");
    spec.chat_templates[std::string(title)] = text;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyTokenizerConfig(std::string_view json, const std::string& name,
                                  TokenizerSpec& spec) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json config, ParseJson(json, name));
  if (!config.is_object()) return InvalidArgument(name, ": is not a JSON object");
  Vocabulary vocabulary(name, spec);
  OUTRIDER_RETURN_IF_ERROR(ReadAddedTokens(config, vocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadRoles(config, vocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadMoreSpecials(config, "additional_special_tokens", vocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadMoreSpecials(config, "extra_special_tokens", vocabulary));
  OUTRIDER_RETURN_IF_ERROR(ReadEnds(config, name, spec));
  OUTRIDER_RETURN_IF_ERROR(ReadTemplates(config, name, spec));
  return vocabulary.Finish();
}

}  // namespace outrider
