// Text that a target writes itself: what its drafts and exits are trained on, since it is what they
// will meet.
//
//   ContinuationOptions options;
//   options.sampling.temperature = 0.8;
//   OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::vector<TokenId>> texts,
//                             ContinueTexts(*target, prompts, options, progress));
//
// As many sequences as the target has room for are written side by side. What is written does not
// depend on that: text i is what the target would write alone after prompt i, as sample i.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/target.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/sampling.h"

namespace outrider {

struct ContinuationOptions {
  SamplingOptions sampling = {};
  uint32_t token_count = 128;      // after the prompt, if nothing ends the text before
  std::vector<TokenId> ends = {};  // which tokens do; they are not part of it
};

// Told of every token that has been written; false stops.
using ContinuationProgress = std::function<bool(uint32_t written)>;

// Each prompt with what the target writes after it. A text also ends where the context does.
// InvalidArgument for a prompt that is empty or fills the context; Cancelled when `progress`, which
// may be null, said so.
absl::StatusOr<std::vector<std::vector<TokenId>>> ContinueTexts(
    Target& target, std::span<const std::vector<TokenId>> prompts,
    const ContinuationOptions& options, const ContinuationProgress& progress);

}  // namespace outrider
