#include "common/text/token_table.h"

#include <algorithm>
#include <iterator>

#include "common/text/byte_fallback.h"
#include "common/text/space_mark.h"

namespace outrider {

namespace {

// Texts that end a turn or a document in models whose files name only one such token, if any.
constexpr std::string_view kEndTexts[] = {"<|im_end|>",
                                          "<|eot_id|>",
                                          "<|eom_id|>",
                                          "<|endoftext|>",
                                          "<end_of_turn>",
                                          "<|end|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "<|end_of_text|>",
                                          "<|END_OF_TURN_TOKEN|>",
                                          "[|endofturn|]",
                                          "<turn|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "[EOT]",
                                          "<end_of_utterance>",
                                          "<｜end▁of▁sentence｜>"};

void AppendWithSpaces(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(text.find(kSpaceMark, at), text.size());
    out.append(text.substr(at, mark - at));
    if (mark == text.size()) break;
    out.push_back(' ');
    at = mark + kSpaceMark.size();
  }
}

void AppendPrinted(const TokenizerSpec& spec, const TokenizerSpec::Token& token, std::string& out) {
  if (spec.model == TokenizerSpec::Model::kByteLevelBpe) {
    out.append(token.text);
    return;
  }
  const auto byte = token.kind == TokenKind::kByte ? ByteOfToken(token.text) : std::nullopt;
  if (byte) {
    out.push_back(static_cast<char>(*byte));
  } else {
    AppendWithSpaces(token.text, out);
  }
}

// Models that end what they say in <|return|> or <|call|> (gpt-oss) end each message of it in
// <|end|>.
bool EndsMessagesOnly(std::string_view text, const TokenizerSpec& spec) {
  const auto has = [&](std::string_view other) {
    return std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                       [&](const auto& added) { return added.text == other; });
  };
  return text == "<|end|>" && has("<|return|>") && has("<|call|>");
}

}  // namespace

TokenTable::TokenTable(const TokenizerSpec& spec) {
  begin_.reserve(spec.tokens.size() + 1);
  flags_.reserve(spec.tokens.size());
  for (const auto& token : spec.tokens) {
    begin_.push_back(bytes_.size());
    AppendPrinted(spec, token, bytes_);
    const bool special = token.kind == TokenKind::kControl || token.kind == TokenKind::kUnknown;
    flags_.push_back(special ? kSpecial : 0);
  }
  begin_.push_back(bytes_.size());
  for (const auto& added : spec.added_tokens) {
    if (added.special) flags_[static_cast<size_t>(added.id)] |= kSpecial;
  }
  MarkEndOfGeneration(spec);
}

void TokenTable::MarkEndOfGeneration(const TokenizerSpec& spec) {
  for (const auto& id : {spec.eos, spec.eot, spec.eom}) {
    if (id) flags_[static_cast<size_t>(*id)] |= kEndOfGeneration;
  }
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto& token = spec.tokens[id];
    // A normal token with such a text is just text.
    if (token.kind != TokenKind::kControl && token.kind != TokenKind::kUserDefined) continue;
    const bool ends =
        std::find(std::begin(kEndTexts), std::end(kEndTexts), token.text) != std::end(kEndTexts);
    if (ends && !EndsMessagesOnly(token.text, spec)) flags_[id] |= kEndOfGeneration;
  }
}

std::string_view TokenTable::Printed(TokenId id) const {
  if (!Contains(id)) return {};
  const size_t begin = begin_[static_cast<size_t>(id)];
  return std::string_view(bytes_).substr(begin, begin_[static_cast<size_t>(id) + 1] - begin);
}

}  // namespace outrider
