#include "common/verification/wire_options.h"

#include <limits>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

namespace {

// On the wire 0 is 1. The least number above 0 leaves the one token that 0 does.
double TopPToWire(double top_p) {
  if (top_p == 1) return 0;
  return top_p == 0 ? std::numeric_limits<double>::min() : top_p;
}

absl::Status CheckCount(int count, int most, std::string_view what) {
  if (count <= most) return absl::OkStatus();
  return InvalidArgument(count, " ", what, " are more than the ", most, " there may be");
}

}  // namespace

void ToWire(const SamplingOptions& options, v1::Sampling& wire) {
  wire.set_temperature(options.temperature);
  wire.set_top_k(static_cast<uint32_t>(options.top_k));
  wire.set_top_p(TopPToWire(options.top_p));
  wire.set_min_p(options.min_p);
  wire.set_repetition_penalty(options.repetition_penalty == 1 ? 0 : options.repetition_penalty);
  wire.set_presence_penalty(options.presence_penalty);
  wire.set_frequency_penalty(options.frequency_penalty);
  for (const LogitBias& bias : options.logit_bias) {
    v1::LogitBias& entry = *wire.add_logit_bias();
    entry.set_token(static_cast<uint32_t>(bias.token));
    entry.set_bias(bias.bias);
  }
  wire.set_seed(options.seed);
  wire.set_sample(options.sample);
}

void ToWire(const StopOptions& options, v1::Stops& wire) {
  wire.set_ignore_end_of_generation(!options.at_end_of_generation);
  for (const TokenId token : options.end_tokens) {
    wire.add_end_tokens(static_cast<uint32_t>(token));
  }
  for (const std::string& text : options.strings) wire.add_strings(text);
  wire.set_max_tokens(options.max_tokens.value_or(0));
}

v1::Finish ToWire(std::optional<FinishReason> finish) {
  if (!finish) return v1::FINISH_NONE;
  switch (*finish) {
    case FinishReason::kEndToken:
      return v1::FINISH_END_TOKEN;
    case FinishReason::kStopString:
      return v1::FINISH_STOP_STRING;
    case FinishReason::kTokenLimit:
      return v1::FINISH_TOKEN_LIMIT;
  }
  return v1::FINISH_NONE;
}

absl::StatusOr<SamplingOptions> FromWire(const v1::Sampling& wire) {
  OUTRIDER_RETURN_IF_ERROR(CheckCount(wire.logit_bias_size(), kLogitBiasesMax, "logit biases"));
  if (wire.top_k() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("a top_k of ", wire.top_k(), " is more than any vocabulary has");
  }
  SamplingOptions options;
  options.temperature = wire.temperature();
  options.top_k = static_cast<int32_t>(wire.top_k());
  options.top_p = wire.top_p() == 0 ? 1 : wire.top_p();
  options.min_p = wire.min_p();
  options.repetition_penalty = wire.repetition_penalty() == 0 ? 1 : wire.repetition_penalty();
  options.presence_penalty = wire.presence_penalty();
  options.frequency_penalty = wire.frequency_penalty();
  for (const v1::LogitBias& entry : wire.logit_bias()) {
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId token,
                              TokenFromWire(entry.token(), std::numeric_limits<int32_t>::max()));
    options.logit_bias.push_back({token, entry.bias()});
  }
  options.seed = wire.seed();
  options.sample = wire.sample();
  return options;
}

absl::StatusOr<StopOptions> FromWire(const v1::Stops& wire, int32_t vocabulary_size) {
  OUTRIDER_RETURN_IF_ERROR(CheckCount(wire.end_tokens_size(), kEndTokensMax, "end tokens"));
  OUTRIDER_RETURN_IF_ERROR(CheckCount(wire.strings_size(), kStopStringsMax, "stop strings"));
  for (const std::string& text : wire.strings()) {
    if (text.size() <= kStopStringBytesMax) continue;
    return InvalidArgument("a stop string of ", text.size(), " bytes is longer than the ",
                           kStopStringBytesMax, " that one may have");
  }
  StopOptions options;
  options.at_end_of_generation = !wire.ignore_end_of_generation();
  for (const uint32_t token : wire.end_tokens()) {
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId end, TokenFromWire(token, vocabulary_size));
    options.end_tokens.push_back(end);
  }
  options.strings.assign(wire.strings().begin(), wire.strings().end());
  if (wire.max_tokens() > 0) options.max_tokens = wire.max_tokens();
  return options;
}

absl::StatusOr<TokenId> TokenFromWire(uint32_t token, int32_t vocabulary_size) {
  if (token >= static_cast<uint32_t>(vocabulary_size)) {
    return InvalidArgument("token ", token, " is outside the vocabulary of 0 to ",
                           vocabulary_size - 1);
  }
  return static_cast<TokenId>(token);
}

v1::DryPolicy ToWire(Dry dry) {
  switch (dry) {
    case Dry::kAdaptive:
      return v1::DRY_POLICY_ADAPTIVE;
    case Dry::kWait:
      return v1::DRY_POLICY_WAIT;
    case Dry::kAlone:
      return v1::DRY_POLICY_ALONE;
  }
  return v1::DRY_POLICY_ADAPTIVE;
}

}  // namespace outrider
