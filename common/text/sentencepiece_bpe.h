// Llama 2's tokenization: a text starts as its characters, and pairs merge by the score of the
// token they make, or by rank where the file lists its merges. Characters that are no token become
// byte tokens or the unknown token.
//
// The two are the same table here: scores become ranks when the model is built, one rule for every
// way to cut a token into two parts that can exist.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/text/text_model.h"

namespace outrider {

// `spec` must outlive the model; its tokens are valid UTF-8 and their scores numbers.
absl::StatusOr<std::unique_ptr<TextModel>> CreateSentencePieceBpe(const TokenizerSpec& spec);

}  // namespace outrider
