// Writes tokenizer.ggml.* so that llama.cpp, and tokenizer_gguf.cc, read the same tokenizer back.
//
// GGUF has no words for some of a TokenizerSpec: the flags of added tokens beyond their kind, a
// prefix for the first text only, and splitting at white space other than by collapsing it.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tokenizers/byte_alphabet.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/tokenizer_gguf_names.h"

namespace outrider {
namespace {

using Model = TokenizerSpec::Model;
using SpacePrefix = TokenizerSpec::SpacePrefix;

std::string SpelledText(const TokenizerSpec& spec, const TokenizerSpec::Token& token) {
  const bool spelled = spec.model == Model::kByteLevelBpe && token.kind == TokenKind::kNormal;
  return spelled ? SpellBytes(token.text) : token.text;
}

void WriteVocabulary(const TokenizerSpec& spec, GgufWriter& writer) {
  std::vector<std::string> texts, merges;
  std::vector<float> scores;
  std::vector<int32_t> kinds;
  for (const TokenizerSpec::Token& token : spec.tokens) {
    texts.push_back(SpelledText(spec, token));
    scores.push_back(token.score);
    kinds.push_back(static_cast<int32_t>(token.kind));
  }
  for (const auto& [left, right] : spec.merges) {
    merges.push_back(
        Concat(texts[static_cast<size_t>(left)], " ", texts[static_cast<size_t>(right)]));
  }
  writer.AddStrings(TokenizerKey("tokens"), texts);
  if (spec.model != Model::kByteLevelBpe) writer.AddFloat32s(TokenizerKey("scores"), scores);
  writer.AddInt32s(TokenizerKey("token_type"), kinds);
  if (spec.model == Model::kByteLevelBpe || !merges.empty()) {
    writer.AddStrings(TokenizerKey("merges"), merges);
  }
}

void WriteSpecials(const TokenizerSpec& spec, GgufWriter& writer) {
  const std::pair<std::string_view, std::optional<TokenId>> specials[] = {
      {"bos_token_id", spec.bos},         {"eos_token_id", spec.eos},
      {"eot_token_id", spec.eot},         {"eom_token_id", spec.eom},
      {"unknown_token_id", spec.unknown}, {"padding_token_id", spec.padding},
  };
  for (const auto& [tail, id] : specials) {
    if (id) writer.AddUint32(TokenizerKey(tail), static_cast<uint32_t>(*id));
  }
  writer.AddBool(TokenizerKey("add_bos_token"), spec.add_bos);
  writer.AddBool(TokenizerKey("add_eos_token"), spec.add_eos);
}

void WriteNormalizer(const TokenizerSpec& spec, GgufWriter& writer) {
  if (spec.model == Model::kByteLevelBpe) return;
  writer.AddBool(TokenizerKey("add_space_prefix"), spec.space_prefix != SpacePrefix::kNever);
  writer.AddBool(TokenizerKey("remove_extra_whitespaces"),
                 spec.remove_extra_whitespace || spec.split_on_whitespace);
  if (!spec.precompiled_charsmap.empty()) {
    writer.AddBytes(TokenizerKey("precompiled_charsmap"), spec.precompiled_charsmap);
  }
}

void WriteTemplates(const TokenizerSpec& spec, GgufWriter& writer) {
  std::vector<std::string> names;
  for (const auto& [each, text] : spec.chat_templates) {
    if (each == "default") {
      writer.AddString(kChatTemplateKey, text);
    } else {
      writer.AddString(Concat(kChatTemplateKey, ".", each), text);
      names.push_back(each);
    }
  }
  if (!names.empty()) writer.AddStrings(kChatTemplateNamesKey, names);
}

std::string_view ModelName(Model model) {
  switch (model) {
    case Model::kByteLevelBpe:
      return "gpt2";
    case Model::kSentencePieceBpe:
      return "llama";
    case Model::kUnigram:
      return "t5";
  }
  return {};
}

}  // namespace

void AddTokenizerMetadata(const TokenizerSpec& spec, GgufWriter& writer) {
  writer.AddString(TokenizerKey("model"), ModelName(spec.model));
  writer.AddString(TokenizerKey("pre"), PreNameFor(spec));
  WriteVocabulary(spec, writer);
  WriteSpecials(spec, writer);
  WriteNormalizer(spec, writer);
  WriteTemplates(spec, writer);
}

}  // namespace outrider
