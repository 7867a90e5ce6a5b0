// How the next token is to be chosen, as the user asked for it.
//
// What each option does, and in which order, is chooser.h's to say. The names and ranges are those
// of OpenAI's interface, vLLM and Hugging Face, so that settings carry over. Everything off is
// temperature 0: greedy.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

struct LogitBias {
  TokenId token = 0;
  float bias = 0;  // in [-100, 100], or minus infinity: never this token
};

struct SamplingOptions {
  // Between 0 and the least temperature a text is greedy in all but name and cost; above the
  // largest all tokens are as good as equal.
  static constexpr double kTemperatureMin = 1e-4;
  static constexpr double kTemperatureMax = 100;
  static constexpr double kRepetitionPenaltyMax = 100;
  static constexpr double kCountPenaltyMax = 2;  // of presence and frequency, either sign
  static constexpr float kBiasMax = 100;

  double temperature = 0;         // 0: greedy, and top_k, top_p, min_p and the seed do not matter
  int32_t top_k = 0;              // the k most probable tokens; 0: all
  double top_p = 1;               // the fewest tokens that hold this much probability
  double min_p = 0;               // tokens at least this probable, relative to the most probable
  double repetition_penalty = 1;  // on tokens of prompt and reply; 1: none
  double presence_penalty = 0;    // on tokens of the reply, once each
  double frequency_penalty = 0;   // on tokens of the reply, once per occurrence
  std::vector<LogitBias> logit_bias = {};
  uint64_t seed = 0;
  uint32_t sample = 0;  // which of several texts of one seed

  bool greedy() const { return temperature == 0; }
  // Whoever knows the largest logit, of equal ones the lowest id's, knows the choice.
  bool takes_largest() const { return greedy() && !penalizes() && logit_bias.empty(); }
  bool penalizes() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }

  // InvalidArgument in one sentence when an option is no number or out of its range, or a bias
  // names a token twice or none of the vocabulary's.
  absl::Status Validate(int32_t vocabulary_size) const;
};

}  // namespace outrider
