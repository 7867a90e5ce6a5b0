#include "common/text/token_lookup.h"

#include <string>

#include "common/base/status.h"

namespace outrider {

TokenLookup::TokenLookup(const TokenizerSpec& spec) {
  ids_.reserve(spec.tokens.size());
  for (const TokenKind kind : {TokenKind::kNormal, TokenKind::kUserDefined}) {
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      const TokenizerSpec::Token& token = spec.tokens[id];
      if (token.kind == kind && !token.text.empty())
        ids_.emplace(Key(token.text), static_cast<TokenId>(id));
    }
  }
}

namespace {

absl::flat_hash_map<absl::string_view, TokenId> TokensNoTextMayBecome(const TokenizerSpec& spec) {
  absl::flat_hash_map<absl::string_view, TokenId> ids;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenizerSpec::Token& token = spec.tokens[id];
    if (token.kind == TokenKind::kNormal || token.kind == TokenKind::kUserDefined) continue;
    ids.emplace(absl::string_view(token.text.data(), token.text.size()), static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace

absl::StatusOr<MergeTable> RankedMerges(const TokenizerSpec& spec, const TokenLookup& lookup) {
  const auto others = TokensNoTextMayBecome(spec);
  const auto is_token = [&](TokenId id) {
    return id >= 0 && static_cast<size_t>(id) < spec.tokens.size();
  };
  MergeTable table;
  table.Reserve(spec.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto [left, right] = spec.merges[rank];
    if (!is_token(left) || !is_token(right)) {
      return InvalidArgument("merge ", rank, " joins tokens ", left, " and ", right,
                             ", the vocabulary has ", spec.tokens.size());
    }
    joined = spec.tokens[static_cast<size_t>(left)].text;
    joined += spec.tokens[static_cast<size_t>(right)].text;
    if (const auto result = lookup.Find(joined)) {
      table.Add(left, right, {static_cast<uint32_t>(rank), *result});
    } else if (!others.contains(absl::string_view(joined.data(), joined.size()))) {
      return InvalidArgument("merge ", rank, " makes \"", joined, "\", which is no token");
    }
  }
  return table;
}

}  // namespace outrider
