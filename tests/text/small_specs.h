// Vocabularies small enough to follow by hand, one for each model.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

inline TokenId AddToken(TokenizerSpec& spec, std::string text, TokenKind kind = TokenKind::kNormal,
                        float score = 0) {
  spec.tokens.push_back({std::move(text), score, kind});
  return static_cast<TokenId>(spec.tokens.size()) - 1;
}

// A token found in raw text.
inline TokenId AddAdded(TokenizerSpec& spec, const std::string& text, bool special) {
  const TokenId id = AddToken(spec, text, special ? TokenKind::kControl : TokenKind::kUserDefined);
  spec.added_tokens.push_back({.id = id, .text = text, .special = special});
  return id;
}

inline TokenId IdOf(const TokenizerSpec& spec, std::string_view text) {
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].text == text) return static_cast<TokenId>(id);
  }
  return -1;
}

// A token made of two others; merges added earlier go first.
inline TokenId AddMerge(TokenizerSpec& spec, std::string_view left, std::string_view right) {
  spec.merges.emplace_back(IdOf(spec, left), IdOf(spec, right));
  const std::string joined = std::string(left) + std::string(right);
  const TokenId known = IdOf(spec, joined);
  return known >= 0 ? known : AddToken(spec, joined);
}

inline void AddByteTokens(TokenizerSpec& spec) {
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    AddToken(spec, text, TokenKind::kByte);
  }
}

// Ids 0 to 255 are the bytes, then a few English merges, <|end|> (special) and <tool> (not
// special).
inline TokenizerSpec SmallByteLevel() {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kByteLevelBpe;
  spec.pre_tokenizer = TokenizerSpec::PreTokenizer::kGpt2;
  for (int byte = 0; byte < 256; ++byte) AddToken(spec, std::string(1, static_cast<char>(byte)));
  AddMerge(spec, "h", "e");
  AddMerge(spec, "l", "l");
  AddMerge(spec, "he", "ll");
  AddMerge(spec, "hell", "o");
  AddMerge(spec, " ", "hello");
  AddMerge(spec, " ", "t");
  AddMerge(spec, "\xC3", "\xA9");  // é
  AddMerge(spec, " ", " ");
  spec.eos = AddAdded(spec, "<|end|>", /*special=*/true);
  AddAdded(spec, "<tool>", /*special=*/false);
  return spec;
}

// <unk>, <s>, </s>, the bytes, a few characters and words. Merges by score.
inline TokenizerSpec SmallSentencePiece() {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kSentencePieceBpe;
  spec.space_prefix = TokenizerSpec::SpacePrefix::kAlways;
  spec.byte_fallback = true;
  spec.fuse_unknown = true;
  spec.unknown = AddToken(spec, "<unk>", TokenKind::kUnknown);
  spec.bos = AddAdded(spec, "<s>", /*special=*/true);
  spec.eos = AddAdded(spec, "</s>", /*special=*/true);
  AddByteTokens(spec);
  float score = 0;
  for (const char* text : {"▁a", "ab", "bc", "abc", "▁abc", "▁▁", "▁", "a", "b", "c", "é"}) {
    AddToken(spec, text, TokenKind::kNormal, --score);
  }
  return spec;
}

// <unk>, </s> and a few words with their log-probabilities.
inline TokenizerSpec SmallUnigram() {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kUnigram;
  spec.space_prefix = TokenizerSpec::SpacePrefix::kAlways;
  spec.space_prefix_once = true;
  spec.remove_extra_whitespace = true;
  spec.unknown = AddToken(spec, "<unk>", TokenKind::kUnknown);
  spec.eos = AddAdded(spec, "</s>", /*special=*/true);
  const std::pair<const char*, float> tokens[] = {{"▁", -2},     {"a", -4},  {"b", -4},
                                                  {"c", -4},     {"ab", -5}, {"bc", -5},
                                                  {"abc", -9.5}, {"▁a", -5}, {"é", -6}};
  for (const auto& [text, score] : tokens) AddToken(spec, text, TokenKind::kNormal, score);
  return spec;
}

}  // namespace outrider
