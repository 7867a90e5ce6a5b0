// The last step of encoding: text becomes token ids. One implementation for each
// TokenizerSpec::Model.
//
// The text is valid UTF-8, free of added tokens and normalised. Threads: Encode() may run in
// several.
#pragma once

#include <string_view>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

class TextModel {
 public:
  virtual ~TextModel() = default;

  // Appends the ids of `text`.
  virtual void Encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
};

}  // namespace outrider
