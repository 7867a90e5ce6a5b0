#include "common/text/sentencepiece_bpe.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/text/bpe_model.h"
#include "common/text/byte_fallback.h"
#include "common/text/merge_table.h"
#include "common/text/space_mark.h"
#include "common/text/token_lookup.h"
#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

using Symbol = MergeTable::Symbol;

// Symbols for characters. A character may be part of tokens without being one; merging by score
// looks at the joined text only, so such a character can still merge. It gets a symbol past the end
// of the vocabulary, its code above that.
constexpr Symbol kNoToken = -1;

Symbol SymbolOfCharacter(const TokenLookup& lookup, std::string_view character,
                         size_t vocabulary_size) {
  if (const auto id = lookup.Find(character)) return *id;
  return static_cast<Symbol>(vocabulary_size + DecodeAt(character, 0).code);
}

// The scores of all tokens as ranks: the highest is 0, equal scores share one.
std::vector<uint32_t> RanksOfScores(const TokenizerSpec& spec) {
  std::vector<float> scores;
  for (const auto& token : spec.tokens) scores.push_back(token.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks;
  for (const auto& token : spec.tokens) {
    const auto at = std::lower_bound(scores.begin(), scores.end(), token.score, std::greater<>());
    ranks.push_back(static_cast<uint32_t>(at - scores.begin()));
  }
  return ranks;
}

MergeTable ScoredMerges(const TokenizerSpec& spec, const TokenLookup& lookup) {
  const std::vector<uint32_t> ranks = RanksOfScores(spec);
  const auto symbol = [&](std::string_view part) -> Symbol {
    if (DecodeAt(part, 0).length == part.size())
      return SymbolOfCharacter(lookup, part, spec.tokens.size());
    return lookup.Find(part).value_or(kNoToken);
  };
  MergeTable table;
  lookup.ForEach([&](std::string_view text, TokenId id) {
    for (size_t at = DecodeAt(text, 0).length; at < text.size(); at += DecodeAt(text, at).length) {
      const Symbol left = symbol(text.substr(0, at));
      if (left == kNoToken) continue;
      const Symbol right = symbol(text.substr(at));
      if (right != kNoToken) table.Add(left, right, {ranks[static_cast<size_t>(id)], id});
    }
  });
  return table;
}

// Whether words can be encoded one by one: no token reaches over the beginning of a word, and
// U+2581 is known, so that no run of unknown characters does either.
bool WordsAreSeparate(const TokenLookup& lookup) {
  bool separate = lookup.Find(kSpaceMark).has_value();
  lookup.ForEach(
      [&](std::string_view text, TokenId) { separate = separate && !CrossesWords(text); });
  return separate;
}

class SentencePieceBpe final : public BpeModel {
 public:
  SentencePieceBpe(const TokenizerSpec& spec, TokenLookup lookup, MergeTable merges)
      : BpeModel(std::move(lookup), spec.tokens.size(), spec.ignore_merges),
        vocabulary_size_(spec.tokens.size()),
        unknown_(spec.unknown),
        fuse_unknown_(spec.fuse_unknown),
        words_are_separate_(WordsAreSeparate(BpeModel::lookup())),
        byte_fallback_(spec),
        merges_(std::move(merges)) {}

 private:
  void ForEachPieceOf(std::string_view text,
                      absl::FunctionRef<void(std::string_view)> visit) const override {
    while (!text.empty()) {
      const size_t length = words_are_separate_ ? FirstMarkedWord(text) : text.size();
      visit(text.substr(0, length));
      text.remove_prefix(length);
    }
  }

  void MergePiece(std::string_view piece, std::vector<Symbol>& symbols,
                  std::vector<TokenId>& ids) const override {
    symbols.clear();
    for (size_t at = 0; at < piece.size();) {
      const std::string_view character = piece.substr(at, DecodeAt(piece, at).length);
      symbols.push_back(SymbolOfCharacter(lookup(), character, vocabulary_size_));
      at += character.size();
    }
    merges_.Apply(symbols);
    bool after_unknown = false;
    for (const Symbol symbol : symbols) {
      if (static_cast<size_t>(symbol) < vocabulary_size_) {
        ids.push_back(symbol);
        after_unknown = false;
      } else {
        after_unknown =
            AppendUnknown(static_cast<char32_t>(symbol - static_cast<Symbol>(vocabulary_size_)),
                          after_unknown, ids);
      }
    }
  }

  // Whether the character ended as the unknown token.
  bool AppendUnknown(char32_t code, bool after_unknown, std::vector<TokenId>& ids) const {
    std::string bytes;
    AppendUtf8(code, bytes);
    if (byte_fallback_.AppendBytes(bytes, ids)) return false;
    if (unknown_ && !(fuse_unknown_ && after_unknown)) ids.push_back(*unknown_);
    return true;
  }

  const size_t vocabulary_size_;
  const std::optional<TokenId> unknown_;
  const bool fuse_unknown_;
  const bool words_are_separate_;
  const ByteFallback byte_fallback_;
  const MergeTable merges_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextModel>> CreateSentencePieceBpe(const TokenizerSpec& spec) {
  TokenLookup lookup(spec);
  if (spec.merges.empty()) {
    MergeTable merges = ScoredMerges(spec, lookup);
    return std::make_unique<SentencePieceBpe>(spec, std::move(lookup), std::move(merges));
  }
  OUTRIDER_ASSIGN_OR_RETURN(MergeTable merges, RankedMerges(spec, lookup));
  return std::make_unique<SentencePieceBpe>(spec, std::move(lookup), std::move(merges));
}

}  // namespace outrider
