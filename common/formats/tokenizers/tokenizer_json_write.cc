// Writes tokenizer.json as Hugging Face's tokenizers write it for a byte-level BPE, and beside it
// what transformers want to know of its special tokens.
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/formats/tokenizers/byte_alphabet.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;  // keys stand where readers of such files look for them

OrderedJson AddedTokens(const TokenizerSpec& spec) {
  OrderedJson list = OrderedJson::array();
  for (const TokenizerSpec::AddedToken& token : spec.added_tokens) {
    list.push_back({{"id", token.id},
                    {"content", token.text},
                    {"single_word", token.single_word},
                    {"lstrip", token.strip_left},
                    {"rstrip", token.strip_right},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

OrderedJson ModelToJson(const TokenizerSpec& spec) {
  OrderedJson vocabulary = OrderedJson::object();
  OrderedJson merges = OrderedJson::array();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenizerSpec::Token& token = spec.tokens[id];
    const bool normal = token.kind == TokenKind::kNormal;
    vocabulary[normal ? SpellBytes(token.text) : token.text] = id;
  }
  for (const auto& [left, right] : spec.merges) {
    merges.push_back({SpellBytes(spec.tokens[static_cast<size_t>(left)].text),
                      SpellBytes(spec.tokens[static_cast<size_t>(right)].text)});
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", spec.ignore_merges},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

// "A" between the ends that Encode() adds.
OrderedJson PostProcessor(const TokenizerSpec& spec) {
  OrderedJson single = OrderedJson::array();
  OrderedJson pair = OrderedJson::array();
  OrderedJson specials = OrderedJson::object();
  const auto add_special = [&](TokenId id, int segment) {
    const std::string& text = spec.tokens[static_cast<size_t>(id)].text;
    const OrderedJson piece = {{"SpecialToken", {{"id", text}, {"type_id", segment}}}};
    if (segment == 0) single.push_back(piece);
    pair.push_back(piece);
    specials[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
  };
  for (int segment = 0; segment < 2; ++segment) {
    const OrderedJson text = {
        {"Sequence", {{"id", segment == 0 ? "A" : "B"}, {"type_id", segment}}}};
    if (spec.add_bos) add_special(*spec.bos, segment);
    if (segment == 0) single.push_back(text);
    pair.push_back(text);
    if (spec.add_eos) add_special(*spec.eos, segment);
  }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(specials)}};
}

OrderedJson ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

OrderedJson Config(const TokenizerSpec& spec) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false},
                        {"add_bos_token", spec.add_bos},
                        {"add_eos_token", spec.add_eos}};
  const std::pair<const char*, std::optional<TokenId>> roles[] = {{"bos_token", spec.bos},
                                                                  {"eos_token", spec.eos},
                                                                  {"unk_token", spec.unknown},
                                                                  {"pad_token", spec.padding}};
  for (const auto& [key, id] : roles) {
    if (id) config[key] = spec.tokens[static_cast<size_t>(*id)].text;
  }
  return config;
}

}  // namespace

absl::StatusOr<TokenizerJson> TokenizerToJson(const TokenizerSpec& spec) {
  if (spec.model != TokenizerSpec::Model::kByteLevelBpe ||
      spec.pre_tokenizer != TokenizerSpec::PreTokenizer::kGpt2 || spec.nfc) {
    return Unimplemented(
        "tokenizer.json is written for byte-level BPE with GPT-2's pre-tokeniser alone; write GGUF "
        "instead");
  }
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", AddedTokens(spec)},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", ByteLevel()},
                            {"post_processor", PostProcessor(spec)},
                            {"decoder", ByteLevel()},
                            {"model", ModelToJson(spec)}};
  return TokenizerJson{json.dump(1) + "\n", Config(spec).dump(1) + "\n"};
}

}  // namespace outrider
