// A prompt to the wire and back: parts, of which a target may have no use for some.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// All of it text.
void SetPrompt(std::span<const TokenId> tokens, v1::Open& open);

// Parts of a prompt, at the most.
inline constexpr int kPromptPartsMax = 64;

// Appends the text. InvalidArgument for parts that a target of text alone cannot take, for more than
// `length_max` tokens or kPromptPartsMax parts, and for tokens outside the vocabulary.
absl::Status ReadPrompt(const v1::Open& open, int32_t vocabulary_size, uint32_t length_max,
                        std::vector<TokenId>& tokens);

}  // namespace outrider
