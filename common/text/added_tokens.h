// Added tokens are found in the text before the model sees it: "<|im_end|>", "<tool_call>".
//
// The rules are those of Hugging Face's added_vocabulary: at each place the longest token wins,
// matches do not overlap, and the flags of a match widen it over white space (strip_left,
// strip_right) or refuse it inside a word (single_word; the search then goes on behind the refused
// match, not inside it).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/text/token_trie.h"

namespace outrider {

class AddedTokens {
 public:
  // Every text must be valid UTF-8 and not empty. Where two have the same text the first counts,
  // special ones before others.
  explicit AddedTokens(std::vector<TokenizerSpec::AddedToken> tokens);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  bool empty() const { return tokens_.empty(); }

  // A part of the text: one added token, or (token is null) text that holds none.
  struct Section {
    std::string_view text;
    const TokenizerSpec::AddedToken* token = nullptr;
  };

  // All of `text` (valid UTF-8) from left to right, less the white space that tokens took. Without
  // `parse_special` special tokens are text like any other.
  std::vector<Section> Split(std::string_view text, bool parse_special) const;

 private:
  const TokenizerSpec::AddedToken* LongestAt(std::string_view text, bool parse_special) const;

  const std::vector<TokenizerSpec::AddedToken> tokens_;
  const TokenTrie trie_;             // text -> index in tokens_
  std::array<bool, 256> may_start_;  // by first byte: most text never touches the trie
};

}  // namespace outrider
