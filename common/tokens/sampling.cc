#include "common/tokens/sampling.h"

#include <limits>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// NaN is in no range.
absl::Status CheckRange(std::string_view name, double value, double least, double largest) {
  if (value >= least && value <= largest) return absl::OkStatus();
  return InvalidArgument(name, " is ", value, ": choose from ", least, " to ", largest);
}

absl::Status CheckBias(const LogitBias& entry, int32_t vocabulary_size) {
  if (entry.token < 0 || entry.token >= vocabulary_size) {
    return InvalidArgument("logit_bias names token ", entry.token, ": the vocabulary has 0 to ",
                           vocabulary_size - 1);
  }
  const bool forbids = entry.bias == -std::numeric_limits<float>::infinity();
  const float most = SamplingOptions::kBiasMax;
  if (!forbids && !(entry.bias >= -most && entry.bias <= most)) {
    return InvalidArgument("logit_bias of token ", entry.token, " is ", entry.bias,
                           ": choose from ", -most, " to ", most,
                           ", or minus infinity to forbid the token");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SamplingOptions::Validate(int32_t vocabulary_size) const {
  if (!greedy() && !(temperature >= kTemperatureMin && temperature <= kTemperatureMax)) {
    return InvalidArgument("temperature is ", temperature, ": choose 0 (greedy) or from ",
                           kTemperatureMin, " to ", kTemperatureMax);
  }
  if (top_k < 0) {
    return InvalidArgument("top_k is ", top_k, ": choose a number of tokens, or 0 for all");
  }
  OUTRIDER_RETURN_IF_ERROR(CheckRange("top_p", top_p, 0, 1));
  OUTRIDER_RETURN_IF_ERROR(CheckRange("min_p", min_p, 0, 1));
  if (!(repetition_penalty > 0 && repetition_penalty <= kRepetitionPenaltyMax)) {
    return InvalidArgument("repetition_penalty is ", repetition_penalty,
                           ": choose above 0 and up to ", kRepetitionPenaltyMax, "; 1 is none");
  }
  OUTRIDER_RETURN_IF_ERROR(
      CheckRange("presence_penalty", presence_penalty, -kCountPenaltyMax, kCountPenaltyMax));
  OUTRIDER_RETURN_IF_ERROR(
      CheckRange("frequency_penalty", frequency_penalty, -kCountPenaltyMax, kCountPenaltyMax));
  absl::flat_hash_set<TokenId> named;
  for (const LogitBias& entry : logit_bias) {
    OUTRIDER_RETURN_IF_ERROR(CheckBias(entry, vocabulary_size));
    if (!named.insert(entry.token).second) {
      return InvalidArgument("logit_bias names token ", entry.token, " twice");
    }
  }
  return absl::OkStatus();
}

}  // namespace outrider
