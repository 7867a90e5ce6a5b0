#include "common/text/unigram.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/text/byte_fallback.h"
#include "common/text/space_mark.h"
#include "common/text/token_lookup.h"
#include "common/text/token_trie.h"
#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

constexpr double kUnknownPenalty = 10;

TokenTrie BuildTrie(const TokenLookup& lookup) {
  std::vector<TokenTrie::Entry> entries;
  lookup.ForEach([&](std::string_view text, TokenId id) { entries.emplace_back(text, id); });
  return TokenTrie(std::move(entries));
}

class Unigram final : public TextModel {
 public:
  Unigram(const TokenizerSpec& spec, const TokenLookup& lookup)
      : split_at_every_space_(spec.cut_at_spaces),
        unknown_(*spec.unknown),
        byte_fallback_(spec),
        trie_(BuildTrie(lookup)) {
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& token : spec.tokens) {
      scores_.push_back(token.score);
      if (token.kind != TokenKind::kUnused) lowest = std::min(lowest, scores_.back());
    }
    unknown_score_ = lowest - kUnknownPenalty;
    words_are_separate_ = lookup.Find(kSpaceMark).has_value();
    lookup.ForEach([&](std::string_view text, TokenId) {
      words_are_separate_ = words_are_separate_ && !CrossesWords(text);
    });
  }

  void Encode(std::string_view text, std::vector<TokenId>& ids) const override {
    std::vector<Step> steps;
    while (!text.empty()) {
      const std::string_view word = text.substr(0, FirstWordLength(text));
      text.remove_prefix(word.size());
      FindBestPath(word, steps);
      AppendPath(word, steps, ids);
    }
  }

 private:
  // The last token of the best path to a place in the word.
  struct Step {
    double score = 0;  // of the whole path
    size_t begin = kUnreached;
    TokenId id = 0;
  };
  static constexpr size_t kUnreached = std::numeric_limits<size_t>::max();

  // Metaspace cuts in front of every U+2581, whatever the tokens look like; SentencePiece itself
  // does not cut, so we do only where that cannot be seen.
  size_t FirstWordLength(std::string_view text) const {
    if (split_at_every_space_) return std::min(text.size(), text.find(kSpaceMark, 1));
    return words_are_separate_ ? FirstMarkedWord(text) : text.size();
  }

  void FindBestPath(std::string_view word, std::vector<Step>& steps) const {
    steps.assign(word.size() + 1, Step());
    for (size_t at = 0; at < word.size();) {
      const double score_here = steps[at].score;
      const size_t character = DecodeAt(word, at).length;
      const auto propose = [&](size_t length, double score, TokenId id) {
        Step& step = steps[at + length];
        if (step.begin == kUnreached || score_here + score > step.score)
          step = {score_here + score, at, id};
      };
      bool character_is_token = false;
      trie_.ForEachPrefix(word.substr(at), [&](size_t length, TokenId id) {
        propose(length, scores_[static_cast<size_t>(id)], id);
        character_is_token |= length == character;
      });
      if (!character_is_token) propose(character, unknown_score_, unknown_);
      at += character;
    }
  }

  void AppendPath(std::string_view word, const std::vector<Step>& steps,
                  std::vector<TokenId>& ids) const {
    std::vector<std::pair<size_t, size_t>> path;  // begin and end of each token, backwards
    for (size_t end = word.size(); end > 0; end = steps[end].begin) {
      const bool fuse =
          !path.empty() && steps[end].id == unknown_ && steps[path.back().second].id == unknown_;
      if (fuse) {
        path.back().first = steps[end].begin;
      } else {
        path.emplace_back(steps[end].begin, end);
      }
    }
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      const TokenId id = steps[it->second].id;
      const auto [begin, end] = *it;
      if (id == unknown_ && byte_fallback_.AppendBytes(word.substr(begin, end - begin), ids))
        continue;
      ids.push_back(id);
    }
  }

  const bool split_at_every_space_;
  bool words_are_separate_ = false;
  const TokenId unknown_;
  const ByteFallback byte_fallback_;
  const TokenTrie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextModel>> CreateUnigram(const TokenizerSpec& spec) {
  if (!spec.unknown) return InvalidArgument("a unigram tokenizer needs an unknown token");
  return std::make_unique<Unigram>(spec, TokenLookup(spec));
}

}  // namespace outrider
