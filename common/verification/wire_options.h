// How tokens are chosen and where a reply ends, to the wire and back.
//
// What the wire leaves out is off: 0 is a top_p and a repetition penalty of 1, and no token limit.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "common/speculation/control/controller.h"
#include "common/tokens/sampling.h"
#include "common/tokens/stop_conditions.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// What a stranger may ask for: no more than anybody needs, so that it costs little to hold and to
// look at with every token.
inline constexpr int kLogitBiasesMax = 4096;
inline constexpr int kEndTokensMax = 256;
inline constexpr int kStopStringsMax = 64;
inline constexpr size_t kStopStringBytesMax = 1024;  // of each

void ToWire(const SamplingOptions& options, v1::Sampling& wire);
void ToWire(const StopOptions& options, v1::Stops& wire);  // but for continues_text
v1::Finish ToWire(std::optional<FinishReason> finish);
v1::DryPolicy ToWire(Dry dry);

// InvalidArgument for what no SamplingOptions can hold, and for more than there may be, before
// anything is copied; its own Validate() checks the rest.
absl::StatusOr<SamplingOptions> FromWire(const v1::Sampling& wire);
// InvalidArgument for end tokens outside the vocabulary, and for more than there may be.
absl::StatusOr<StopOptions> FromWire(const v1::Stops& wire, int32_t vocabulary_size);

// InvalidArgument when there is no such token.
absl::StatusOr<TokenId> TokenFromWire(uint32_t token, int32_t vocabulary_size);

}  // namespace outrider
