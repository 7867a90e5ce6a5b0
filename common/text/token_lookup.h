// Which text is which token, for the models' own lookups.
//
// Control and unknown tokens are not in it: no text may become one by way of the model's rules,
// only by being an added token. Nor are byte tokens ("<0x41>" in a text is six characters) and
// padding. Where an added token repeats the text of a normal one, the normal one counts.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/text/merge_table.h"

namespace outrider {

class TokenLookup {
 public:
  // `spec` must outlive it.
  explicit TokenLookup(const TokenizerSpec& spec);

  std::optional<TokenId> Find(std::string_view text) const {
    const auto it = ids_.find(Key(text));
    return it == ids_.end() ? std::nullopt : std::optional<TokenId>(it->second);
  }

  // visit(text, id) for every token that Find() finds.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [text, id] : ids_) visit(std::string_view(text.data(), text.size()), id);
  }

 private:
  // bookworm's Abseil hashes its own view, not the standard's.
  static absl::string_view Key(std::string_view text) { return {text.data(), text.size()}; }

  absl::flat_hash_map<absl::string_view, TokenId> ids_;
};

// spec.merges as rules by rank. InvalidArgument when a merge names no token or makes none. A merge
// that would make a token that text may not become is left out.
absl::StatusOr<MergeTable> RankedMerges(const TokenizerSpec& spec, const TokenLookup& lookup);

// For each token whether the merges turn its own text into just that token. Most words of a text
// are such tokens, so knowing it saves most of the work; it is found out when a token's text is
// first met.
class WholeTokens {
 public:
  enum class Answer : uint8_t { kUnknown, kYes, kNo };

  explicit WholeTokens(size_t vocabulary_size) : answers_(vocabulary_size) {}

  // Any number of threads may find out the same thing at once: they find the same.
  Answer Get(TokenId id) const {
    return answers_[static_cast<size_t>(id)].load(std::memory_order_relaxed);
  }
  void Set(TokenId id, bool whole) const {
    answers_[static_cast<size_t>(id)].store(whole ? Answer::kYes : Answer::kNo,
                                            std::memory_order_relaxed);
  }

 private:
  mutable std::vector<std::atomic<Answer>> answers_;
};

}  // namespace outrider
