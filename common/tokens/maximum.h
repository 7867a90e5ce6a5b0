// The largest logit, in one pass that also finds logits no model should give.
#pragma once

#include <limits>
#include <span>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Maximum {
  float value;    // minus infinity when every logit is, or there are none
  TokenId token;  // the lowest id that has it
  bool sound;     // false: some logit is NaN or plus infinity, and the rest means nothing
};

// Reads at the speed of a plain maximum; the token is looked up in the winning block only.
Maximum FindMaximum(std::span<const float> logits);

}  // namespace outrider
