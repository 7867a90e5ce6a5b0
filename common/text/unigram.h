// T5's tokenization: of all ways to cut a word into tokens, the one whose scores
// (log-probabilities) have the largest sum.
//
// Viterbi in double precision, from left to right; of equal sums the first found stays. A character
// that is no token by itself can always be the unknown token, at ten less than the lowest score; a
// run of them is one. O(n * longest token).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/text/text_model.h"

namespace outrider {

// `spec` must outlive the model; its tokens are valid UTF-8 and their scores numbers.
absl::StatusOr<std::unique_ptr<TextModel>> CreateUnigram(const TokenizerSpec& spec);

}  // namespace outrider
