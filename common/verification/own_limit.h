// The mark of a refusal for a limit of the caller's own, a key's or an address's, and not for want of what all
// share. A device that is refused waits, longer each time; who is so often is none (server/connection_book.h).
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace outrider {

inline constexpr char kOwnLimit[] = "outrider.own_limit";

inline absl::Status OfOwnLimit(absl::Status refusal, bool is_own = true) {
  if (is_own) refusal.SetPayload(kOwnLimit, absl::Cord());
  return refusal;
}

inline bool IsOfOwnLimit(const absl::Status& status) {
  return status.GetPayload(kOwnLimit).has_value();
}

}  // namespace outrider
