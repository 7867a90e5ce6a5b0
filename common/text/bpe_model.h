// What both byte pair encodings share: text falls into pieces that no merge crosses, and most
// pieces have been seen.
//
// A piece that is a token costs one lookup (TokenLookup, WholeTokens); one met before in the same
// text is copied; only the rest is merged.
#pragma once

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/text/merge_table.h"
#include "common/text/text_model.h"
#include "common/text/token_lookup.h"

namespace outrider {

class BpeModel : public TextModel {
 public:
  void Encode(std::string_view text, std::vector<TokenId>& ids) const final;

 protected:
  // `ignore_merges`: a piece that is a token is that token, whatever the merges say.
  BpeModel(TokenLookup lookup, size_t vocabulary_size, bool ignore_merges)
      : lookup_(std::move(lookup)), whole_tokens_(vocabulary_size), ignore_merges_(ignore_merges) {}

  const TokenLookup& lookup() const { return lookup_; }

 private:
  // Calls visit(piece) for the pieces of `text`, which no merge crosses, from left to right.
  virtual void ForEachPieceOf(std::string_view text,
                              absl::FunctionRef<void(std::string_view)> visit) const = 0;

  // Appends the ids of one piece. `symbols` is room to work in.
  virtual void MergePiece(std::string_view piece, std::vector<MergeTable::Symbol>& symbols,
                          std::vector<TokenId>& ids) const = 0;

  const TokenLookup lookup_;
  const WholeTokens whole_tokens_;
  const bool ignore_merges_;
};

}  // namespace outrider
