// What a vocabulary says about each id: the bytes it prints, whether it is special, whether it ends
// a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

class TokenTable {
 public:
  explicit TokenTable(const TokenizerSpec& spec);

  // All three answer "nothing" and "no" for ids outside the vocabulary.
  std::string_view Printed(TokenId id) const;
  bool IsSpecial(TokenId id) const { return Has(id, kSpecial); }
  bool IsEndOfGeneration(TokenId id) const { return Has(id, kEndOfGeneration); }

 private:
  enum Flag : unsigned char { kSpecial = 1, kEndOfGeneration = 2 };

  bool Contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < flags_.size(); }
  bool Has(TokenId id, Flag flag) const {
    return Contains(id) && (flags_[static_cast<size_t>(id)] & flag) != 0;
  }
  void MarkEndOfGeneration(const TokenizerSpec& spec);

  std::string bytes_;          // of all tokens, one after the other
  std::vector<size_t> begin_;  // of each token in bytes_, and the end of the last
  std::vector<unsigned char> flags_;
};

}  // namespace outrider
