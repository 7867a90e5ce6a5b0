#include "common/formats/tokenizers/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/byte_alphabet.h"

namespace outrider {

Vocabulary::Vocabulary(std::string name, TokenizerSpec& spec)
    : name_(std::move(name)), spec_(spec) {
  index_.reserve(spec_.tokens.size());
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const TokenizerSpec::Token& token = spec_.tokens[id];
    if (token.kind == TokenKind::kUnused) continue;
    const bool spelled = ByteLevel() && token.kind == TokenKind::kNormal;
    index_.emplace(spelled ? SpellBytes(token.text) : token.text, static_cast<TokenId>(id));
  }
  for (size_t i = 0; i < spec_.added_tokens.size(); ++i) added_[spec_.added_tokens[i].id] = i;
}

absl::Status Vocabulary::MakeRoom(int64_t id) {
  if (id < 0 || id >= kMaxTokens) {
    return InvalidArgument(name_, ": token id ", id, " is out of bounds; ids run from 0 to ",
                           kMaxTokens - 1);
  }
  if (static_cast<size_t>(id) >= spec_.tokens.size()) {
    spec_.tokens.resize(static_cast<size_t>(id) + 1, {.text = {}, .kind = TokenKind::kUnused});
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::Place(int64_t id, std::string_view text, TokenKind kind, float score) {
  OUTRIDER_RETURN_IF_ERROR(MakeRoom(id));
  TokenizerSpec::Token& token = spec_.tokens[static_cast<size_t>(id)];
  if (token.kind != TokenKind::kUnused || !token.text.empty()) {
    return InvalidArgument(name_, ": token id ", id, " is given to both ", Quote(token.text),
                           " and ", Quote(text));
  }
  if (!std::isfinite(score)) {
    return InvalidArgument(name_, ": token ", id, " (", Quote(text),
                           ") has a score that is not a finite number");
  }
  if (text.empty()) kind = TokenKind::kUnused;
  token = {.text = std::string(text), .score = score, .kind = kind};
  if (kind == TokenKind::kUnused) return absl::OkStatus();
  const auto [other, fresh] = index_.emplace(text, static_cast<TokenId>(id));
  if (!fresh) {
    return InvalidArgument(name_, ": tokens ", other->second, " and ", id, " are both ",
                           Quote(text));
  }
  if (ByteLevel() && kind == TokenKind::kNormal) {
    if (std::optional<std::string> bytes = UnspellBytes(text)) {
      token.text = *std::move(bytes);
    } else {
      unspellable_.insert(static_cast<TokenId>(id));
    }
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::AddMerge(std::string_view left, std::string_view right) {
  const std::optional<TokenId> left_id = Find(left);
  const std::optional<TokenId> right_id = Find(right);
  for (const auto& [part, id] : {std::pair(left, left_id), std::pair(right, right_id)}) {
    if (!id) {
      return InvalidArgument(name_, ": merge ", spec_.merges.size(), " (", Quote(left), " ",
                             Quote(right), ") uses ", Quote(part), ", which is no token");
    }
  }
  if (!Find(Concat(left, right))) {
    return InvalidArgument(name_, ": merge ", spec_.merges.size(), " (", Quote(left), " ",
                           Quote(right), ") makes a text that is no token");
  }
  spec_.merges.emplace_back(*left_id, *right_id);
  return absl::OkStatus();
}

absl::Status Vocabulary::AddMerge(std::string_view line) {
  const size_t space = line.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == line.size()) {
    return InvalidArgument(name_, ": merge ", spec_.merges.size(), " (", Quote(line),
                           ") is not two tokens with a space between them");
  }
  return AddMerge(line.substr(0, space), line.substr(space + 1));
}

absl::Status Vocabulary::Add(int64_t id, TokenizerSpec::AddedToken added) {
  if (added.text.empty()) return InvalidArgument(name_, ": added token ", id, " has no text");
  OUTRIDER_RETURN_IF_ERROR(MakeRoom(id));
  added.id = static_cast<TokenId>(id);
  const auto [known, fresh] = index_.emplace(added.text, added.id);
  if (known->second != added.id) {
    return InvalidArgument(name_, ": added token ", Quote(added.text), " has id ", added.id,
                           " but is token ", known->second, " already");
  }
  TokenizerSpec::Token& token = spec_.tokens[static_cast<size_t>(added.id)];
  // A text the index did not know, on an id that has one: two texts for one token.
  if (fresh && token.kind != TokenKind::kUnused) {
    return InvalidArgument(name_, ": added token ", Quote(added.text), " has id ", added.id,
                           ", which is ", Quote(token.text), " in the vocabulary");
  }
  token.text = added.text;
  unspellable_.erase(added.id);
  if (token.kind != TokenKind::kUnknown && token.kind != TokenKind::kByte) {
    token.kind = added.special ? TokenKind::kControl : TokenKind::kUserDefined;
  }
  const auto [position, first] = added_.emplace(added.id, spec_.added_tokens.size());
  if (first) {
    spec_.added_tokens.push_back(std::move(added));
  } else {
    spec_.added_tokens[position->second] = std::move(added);
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::AddByKind() {
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const TokenKind kind = spec_.tokens[id].kind;
    if (kind != TokenKind::kControl && kind != TokenKind::kUserDefined &&
        kind != TokenKind::kUnknown) {
      continue;
    }
    OUTRIDER_RETURN_IF_ERROR(
        Add(static_cast<int64_t>(id),
            {.text = spec_.tokens[id].text, .special = kind != TokenKind::kUserDefined}));
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::Finish() {
  if (spec_.tokens.empty()) return InvalidArgument(name_, ": the vocabulary is empty");
  if (!unspellable_.empty()) {
    const TokenId id = *std::min_element(unspellable_.begin(), unspellable_.end());
    return InvalidArgument(name_, ": token ", id, " (",
                           Quote(spec_.tokens[static_cast<size_t>(id)].text),
                           ") has characters outside the byte alphabet of its model");
  }
  return FillGaps();
}

absl::Status Vocabulary::FillGaps() {
  const auto is_gap = [](const TokenizerSpec::Token& token) {
    return token.kind == TokenKind::kUnused && token.text.empty();
  };
  const size_t gaps =
      static_cast<size_t>(std::count_if(spec_.tokens.begin(), spec_.tokens.end(), is_gap));
  const size_t texts = spec_.tokens.size() - gaps;
  if (gaps > texts + kMaxGapsBeyondTexts) {
    return InvalidArgument(name_, ": ids run to ", spec_.tokens.size() - 1, ", but only ", texts,
                           " of them have a text; the ids are damaged or most tokens are missing");
  }
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    if (is_gap(spec_.tokens[id])) spec_.tokens[id].text = Concat("[PAD", id, "]");
  }
  return absl::OkStatus();
}

std::optional<TokenId> Vocabulary::Find(std::string_view text) const {
  const auto found = index_.find(text);
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

absl::Status Vocabulary::SetSpecial(std::string_view role, int64_t id,
                                    std::optional<TokenId>& target) const {
  if (id < 0 || static_cast<uint64_t>(id) >= spec_.tokens.size()) {
    return InvalidArgument(name_, ": the ", role, " token is ", id, ", but the vocabulary has ",
                           spec_.tokens.size(), " tokens");
  }
  target = static_cast<TokenId>(id);
  return absl::OkStatus();
}

bool IsByteToken(std::string_view text) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && hex(text[3]) && hex(text[4]) &&
         text[5] == '>';
}

}  // namespace outrider
