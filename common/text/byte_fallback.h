// What SentencePiece models do with a character that no token covers: its bytes, if each of them is
// a token, otherwise the unknown token.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// The byte that a byte token such as "<0x0A>" stands for.
std::optional<unsigned char> ByteOfToken(std::string_view text);

class ByteFallback {
 public:
  explicit ByteFallback(const TokenizerSpec& spec);

  // Appends the byte tokens of `text`; false, and nothing appended, where the model has them not
  // all.
  bool AppendBytes(std::string_view text, std::vector<TokenId>& ids) const;

 private:
  std::array<std::optional<TokenId>, 256>
      byte_ids_;  // all empty when the model has no byte fallback
};

}  // namespace outrider
