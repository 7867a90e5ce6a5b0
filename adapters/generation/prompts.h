// Beginnings for a target to go on from: pieces cut out of documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

struct PromptOptions {
  size_t count = 0;
  uint32_t length = 16;               // tokens of text, fewer where a document has no more
  std::optional<TokenId> begin = {};  // stands in front of each
  uint64_t seed = 0;
};

// From places anywhere in `documents`, each token as likely as any other to be the first; the same
// for the same seed on every machine. None when there is no token.
std::vector<std::vector<TokenId>> CutPrompts(std::span<const std::vector<TokenId>> documents,
                                             const PromptOptions& options);

}  // namespace outrider
