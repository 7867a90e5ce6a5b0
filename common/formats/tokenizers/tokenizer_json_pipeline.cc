// The steps around the model of a tokenizer.json. Hugging Face composes them freely; published
// models use a handful of compositions, and those are what a TokenizerSpec can say. Each is
// recognised exactly; anything else is refused by name.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/base64.h"
#include "common/formats/tokenizers/json_fields.h"
#include "common/formats/tokenizers/pre_tokenizer_steps.h"
#include "common/formats/tokenizers/tokenizer_json.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using PreTokenizer = TokenizerSpec::PreTokenizer;
using SpacePrefix = TokenizerSpec::SpacePrefix;

constexpr size_t kDeepestSequence = 8;

std::string_view Type(const Json& step) {
  const Json* type = Member(step, "type");
  if (type == nullptr || !type->is_string()) return {};
  return type->get_ref<const std::string&>();
}

// Sequences laid flat: `key` names their members ("normalizers"). False when they nest too deeply.
bool Flatten(const Json& step, const char* key, size_t depth, std::vector<const Json*>& steps) {
  if (depth > kDeepestSequence) return false;
  const Json* members = Type(step) == "Sequence" ? Member(step, key) : nullptr;
  if (members == nullptr) {
    steps.push_back(&step);
    return true;
  }
  for (const Json& member : *members) {
    if (!Flatten(member, key, depth + 1, steps)) return false;
  }
  return true;
}

// A part of the pipeline ("normalizer") as its list of steps, read from the front.
class Steps {
 public:
  static absl::StatusOr<Steps> Of(const Json& json, const char* part, const char* members,
                                  const std::string& name) {
    Steps steps(part, name);
    const Json* root = Member(json, part);
    if (root != nullptr && !Flatten(*root, members, 0, steps.steps_)) {
      return InvalidArgument(name, ": ", part, " nests its sequences more than ", kDeepestSequence,
                             " deep");
    }
    return steps;
  }

  bool Done() const { return next_ == steps_.size(); }
  std::string_view NextType() const { return Done() ? std::string_view() : Type(*steps_[next_]); }

  // The next step when it is of `type`, else null.
  const Json* Take(std::string_view type) { return NextType() == type ? steps_[next_++] : nullptr; }

  // The error for a next step that has no place where it stands, or has unusual settings.
  absl::Status Unsupported() const {
    return Done() ? Unsupported("an empty list")
                  : Unsupported(Type(*steps_[next_]).empty() ? "a step without a type"
                                                             : Type(*steps_[next_]));
  }
  absl::Status Unsupported(std::string_view what) const {
    return Unimplemented(name_, ": ", part_, " ", what,
                         " is not supported in this place or with these settings");
  }
  absl::Status CheckDone() const { return Done() ? absl::OkStatus() : Unsupported(); }

  std::string where() const { return Concat(name_, ": ", part_, "."); }

 private:
  Steps(const char* part, const std::string& name) : part_(part), name_(name) {}

  std::string part_;
  std::string name_;
  std::vector<const Json*> steps_;
  size_t next_ = 0;
};

// {"String": "x"} or {"Regex": "x"}: whether `step` has exactly that as its pattern.
bool PatternIs(const Json& step, const char* kind, std::string_view text) {
  const Json* pattern = Member(step, "pattern");
  const Json* value = pattern == nullptr ? nullptr : Member(*pattern, kind);
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == text;
}

bool TextIs(const Json& step, const char* key, std::string_view text) {
  const Json* value = Member(step, key);
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == text;
}

bool FlagIs(const Json& step, const char* key, bool flag) {
  const Json* value = Member(step, key);
  return value != nullptr && value->is_boolean() && value->get<bool>() == flag;
}

// --- byte-level models -----------------------------------------------------------------------

// The expression a Split cuts by, or nothing where it does anything but make pieces of its matches
// and of what stands between them.
std::optional<std::string> ExpressionOf(const Json& split) {
  const Json* pattern = Member(split, "pattern");
  const Json* expression = pattern == nullptr ? nullptr : Member(*pattern, "Regex");
  if (expression == nullptr || !expression->is_string()) return std::nullopt;
  const std::string& text = expression->get_ref<const std::string&>();
  if (TextIs(split, "behavior", "Isolated") && FlagIs(split, "invert", false)) return text;
  // "What does not match goes", of an expression that leaves nothing out.
  const bool takes_all =
      text.ends_with(R"(|\s+(?!\S)|\s+)") && text.find(R"(^\s\p{L})") != text.npos;
  if (TextIs(split, "behavior", "Removed") && FlagIs(split, "invert", true) && takes_all) {
    return text;
  }
  if (TextIs(split, "behavior", "MergedWithNext") && FlagIs(split, "invert", false)) {
    return "merged with next: " + text;
  }
  return std::nullopt;
}

// The next step as pre_tokenizer_steps.h names it; empty for a ByteLevel that cuts nothing.
absl::StatusOr<std::string> NextStep(Steps& steps) {
  if (const Json* split = steps.Take("Split")) {
    std::optional<std::string> expression = ExpressionOf(*split);
    if (!expression) return steps.Unsupported("Split");
    return *std::move(expression);
  }
  if (const Json* digits = steps.Take("Digits")) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool single,
                              FlagOr(*digits, "individual_digits", false, steps.where()));
    return std::string(single ? kSingleDigits : kDigitRuns);
  }
  if (const Json* punctuation = steps.Take("Punctuation")) {
    if (!TextIs(*punctuation, "behavior", "Contiguous")) return steps.Unsupported("Punctuation");
    return std::string(kPunctuationRuns);
  }
  const Json* byte_level = steps.Take("ByteLevel");
  if (byte_level == nullptr) return steps.Unsupported();
  if (!FlagIs(*byte_level, "add_prefix_space", false)) {
    return steps.Unsupported("ByteLevel with add_prefix_space");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const bool use_regex,
                            FlagOr(*byte_level, "use_regex", true, steps.where()));
  return std::string(use_regex ? kByteLevelWords : std::string_view());
}

absl::Status ReadByteLevelPreTokenizer(Steps& steps, TokenizerSpec& spec) {
  std::vector<std::string> names;
  while (!steps.Done()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::string name, NextStep(steps));
    if (!name.empty()) names.push_back(std::move(name));
  }
  const std::optional<PreTokenizer> known = FindPreTokenizer(names);
  if (!known) {
    std::string quoted;
    for (const std::string& name : names) quoted += Concat(quoted.empty() ? "" : ", ", Quote(name));
    return steps.Unsupported(Concat("that cuts by ", quoted.empty() ? "nothing" : quoted));
  }
  spec.pre_tokenizer = *known;
  return absl::OkStatus();
}

absl::Status ReadByteLevelNormalizer(Steps& steps, TokenizerSpec& spec) {
  spec.nfc = steps.Take("NFC") != nullptr;
  return steps.CheckDone();
}

// --- SentencePiece models --------------------------------------------------------------------

absl::Status ReadCharsmap(const Json& precompiled, const Steps& steps, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view base64,
                            TextOrEmpty(precompiled, "precompiled_charsmap", steps.where()));
  std::optional<std::string> charsmap = DecodeBase64(base64);
  if (!charsmap) return InvalidArgument(steps.where(), "precompiled_charsmap is not base64");
  spec.precompiled_charsmap = *std::move(charsmap);
  return absl::OkStatus();
}

// In this order, each if it is there: the character map; Strip on the right with runs of spaces to
// one (T5); U+2581 in front; U+2581 for spaces. `marks_spaces` says whether the last one is.
absl::Status ReadSentencePieceNormalizer(Steps& steps, TokenizerSpec& spec, bool& marks_spaces) {
  spec.nfc = steps.Take("NFC") != nullptr;
  if (const Json* precompiled = steps.Take("Precompiled")) {
    OUTRIDER_RETURN_IF_ERROR(ReadCharsmap(*precompiled, steps, spec));
  }
  if (const Json* strip = steps.Take("Strip")) {
    const Json* replace = steps.Take("Replace");
    if (!FlagIs(*strip, "strip_left", false) || !FlagIs(*strip, "strip_right", true) ||
        replace == nullptr || !PatternIs(*replace, "Regex", " {2,}") ||
        !(TextIs(*replace, "content", " ") || TextIs(*replace, "content", kSpaceMark))) {
      return steps.Unsupported("Strip");
    }
    spec.remove_extra_whitespace = true;
  }
  if (const Json* prepend = steps.Take("Prepend")) {
    if (!TextIs(*prepend, "prepend", kSpaceMark)) return steps.Unsupported("Prepend");
    spec.space_prefix = SpacePrefix::kAlways;
  }
  if (const Json* replace = steps.Take("Replace")) {
    if (!PatternIs(*replace, "String", " ") || !TextIs(*replace, "content", kSpaceMark)) {
      return steps.Unsupported("Replace");
    }
    marks_spaces = true;
  }
  return steps.CheckDone();
}

// Files before tokenizers 0.15 say add_prefix_space instead of prepend_scheme.
absl::StatusOr<SpacePrefix> PrependScheme(const Json& metaspace, const Steps& steps) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view scheme,
                            TextOrEmpty(metaspace, "prepend_scheme", steps.where()));
  OUTRIDER_ASSIGN_OR_RETURN(const bool adds,
                            FlagOr(metaspace, "add_prefix_space", true, steps.where()));
  if (scheme == "never" || (scheme.empty() && !adds)) return SpacePrefix::kNever;
  if (scheme == "first") return SpacePrefix::kFirst;
  if (scheme == "always" || scheme.empty()) return SpacePrefix::kAlways;
  return InvalidArgument(steps.where(), "prepend_scheme is ", Quote(scheme),
                         "; known are always, first and never");
}

absl::Status ReadMetaspace(Steps& steps, TokenizerSpec& spec, bool& marks_spaces) {
  // Gemma's: a cut at spaces where the normaliser has left none.
  if (const Json* split = steps.Take("Split")) {
    const bool at_spaces = PatternIs(*split, "String", " ") || PatternIs(*split, "Regex", " ");
    if (!at_spaces || !marks_spaces) return steps.Unsupported("Split");
    return steps.CheckDone();
  }
  spec.split_on_whitespace = steps.Take("WhitespaceSplit") != nullptr;
  const Json* metaspace = steps.Take("Metaspace");
  if (metaspace == nullptr) {
    return spec.split_on_whitespace ? steps.Unsupported("WhitespaceSplit without Metaspace")
                                    : steps.CheckDone();
  }
  if (!TextIs(*metaspace, "replacement", kSpaceMark)) {
    return steps.Unsupported("Metaspace with another replacement than U+2581");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const SpacePrefix prefix, PrependScheme(*metaspace, steps));
  if (spec.split_on_whitespace && prefix != SpacePrefix::kAlways) {
    return steps.Unsupported("WhitespaceSplit before a Metaspace that does not always prepend");
  }
  // After a Prepend every text starts with U+2581, and Metaspace adds no second one.
  if (spec.space_prefix == SpacePrefix::kNever) {
    spec.space_prefix = prefix;
    spec.space_prefix_once = prefix != SpacePrefix::kNever;
  }
  OUTRIDER_ASSIGN_OR_RETURN(spec.cut_at_spaces, FlagOr(*metaspace, "split", true, steps.where()));
  marks_spaces = true;
  return steps.CheckDone();
}

// --- around the ids --------------------------------------------------------------------------

// The id that a template's special token stands for.
absl::StatusOr<int64_t> TemplateId(const Json& post_processor, const Json& special,
                                   const Steps& steps) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, TextOrEmpty(special, "id", steps.where()));
  const Json* tokens = Member(post_processor, "special_tokens");
  const Json* token = tokens == nullptr ? nullptr : Member(*tokens, std::string(text).c_str());
  const Json* ids = token == nullptr ? nullptr : Member(*token, "ids");
  if (ids == nullptr || !ids->is_array() || ids->size() != 1) {
    return InvalidArgument(steps.where(), "special_tokens gives no single id for ", Quote(text));
  }
  return WholeNumber((*ids)[0], steps.where() + "special_tokens: an id");
}

// "[bos] A [eos]", either end optional.
absl::Status ReadTemplate(const Json& post_processor, const Steps& steps, Ends& ends) {
  const Json* single = Member(post_processor, "single");
  if (single == nullptr || !single->is_array()) {
    return InvalidArgument(steps.where(), "single is missing or not an array");
  }
  bool text_seen = false;
  for (const Json& piece : *single) {
    const Json* special = Member(piece, "SpecialToken");
    if (special == nullptr) {
      if (text_seen || Member(piece, "Sequence") == nullptr) {
        return steps.Unsupported("TemplateProcessing with more than one text");
      }
      text_seen = true;
      continue;
    }
    std::optional<int64_t>& end = text_seen ? ends.eos : ends.bos;
    if (end) return steps.Unsupported("TemplateProcessing with two special tokens on one side");
    OUTRIDER_ASSIGN_OR_RETURN(end, TemplateId(post_processor, *special, steps));
  }
  if (!text_seen) return steps.Unsupported("TemplateProcessing without a text");
  return absl::OkStatus();
}

// BART's: [cls, id] in front and [sep, id] behind.
absl::Status ReadRoberta(const Json& post_processor, const Steps& steps, Ends& ends) {
  for (const auto& [key, end] : {std::pair("cls", &ends.bos), std::pair("sep", &ends.eos)}) {
    const Json* pair = Member(post_processor, key);
    if (pair == nullptr || !pair->is_array() || pair->size() != 2) {
      return InvalidArgument(steps.where(), key, " is not [text, id]");
    }
    OUTRIDER_ASSIGN_OR_RETURN(*end, WholeNumber((*pair)[1], steps.where() + key));
  }
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(Steps& steps, Ends& ends) {
  while (steps.Take("ByteLevel") != nullptr) {  // trims offsets, which nobody here asks for
  }
  if (const Json* post_processor = steps.Take("TemplateProcessing")) {
    OUTRIDER_RETURN_IF_ERROR(ReadTemplate(*post_processor, steps, ends));
  } else if (const Json* roberta = steps.Take("RobertaProcessing")) {
    OUTRIDER_RETURN_IF_ERROR(ReadRoberta(*roberta, steps, ends));
  }
  return steps.CheckDone();
}

// Decoding follows from the model; this only makes sure that the file means the same.
absl::Status CheckDecoder(Steps& steps, const TokenizerSpec& spec) {
  if (spec.model == TokenizerSpec::Model::kByteLevelBpe) {
    steps.Take("ByteLevel");
    return steps.CheckDone();
  }
  if (steps.Take("Metaspace") != nullptr) return steps.CheckDone();
  steps.Take("Replace");
  steps.Take("ByteFallback");
  steps.Take("Fuse");
  steps.Take("Strip");
  return steps.CheckDone();
}

}  // namespace

bool IsByteLevel(const Json& json) {
  const Json* pre_tokenizer = Member(json, "pre_tokenizer");
  std::vector<const Json*> steps;
  if (pre_tokenizer == nullptr || !Flatten(*pre_tokenizer, "pretokenizers", 0, steps)) return false;
  for (const Json* step : steps) {
    if (Type(*step) == "ByteLevel") return true;
  }
  return false;
}

absl::StatusOr<Ends> ReadPipeline(const Json& json, const std::string& name, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN_OR_RETURN(Steps normalizer, Steps::Of(json, "normalizer", "normalizers", name));
  OUTRIDER_ASSIGN_OR_RETURN(Steps pre_tokenizer,
                            Steps::Of(json, "pre_tokenizer", "pretokenizers", name));
  OUTRIDER_ASSIGN_OR_RETURN(Steps post_processor,
                            Steps::Of(json, "post_processor", "processors", name));
  OUTRIDER_ASSIGN_OR_RETURN(Steps decoder, Steps::Of(json, "decoder", "decoders", name));

  Ends ends;
  if (spec.model == TokenizerSpec::Model::kByteLevelBpe) {
    OUTRIDER_RETURN_IF_ERROR(ReadByteLevelNormalizer(normalizer, spec));
    OUTRIDER_RETURN_IF_ERROR(ReadByteLevelPreTokenizer(pre_tokenizer, spec));
  } else {
    bool marks_spaces = false;
    OUTRIDER_RETURN_IF_ERROR(ReadSentencePieceNormalizer(normalizer, spec, marks_spaces));
    OUTRIDER_RETURN_IF_ERROR(ReadMetaspace(pre_tokenizer, spec, marks_spaces));
    if (!marks_spaces) {
      return Unimplemented(
          name,
          ": neither normalizer nor pre_tokenizer turns spaces into U+2581, and no "
          "other kind of SentencePiece vocabulary is supported");
    }
  }
  OUTRIDER_RETURN_IF_ERROR(ReadPostProcessor(post_processor, ends));
  OUTRIDER_RETURN_IF_ERROR(CheckDecoder(decoder, spec));
  return ends;
}

}  // namespace outrider
