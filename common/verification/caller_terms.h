// What a caller may have of a verifier, as far as it differs from what anybody may.
#pragma once

#include <cstdint>

namespace outrider {

struct CallerTerms {
  uint32_t sessions_max = 0;      // at a time; 0: as anybody
  uint32_t opens_per_minute = 0;  // in the mean, and as many at once; 0: as anybody
  uint32_t streams_max = 0;       // at a time; 0: as anybody
  uint32_t share = 1;  // of the target's time, as compared with others who want some; above 0

  bool operator==(const CallerTerms&) const = default;
};

}  // namespace outrider
