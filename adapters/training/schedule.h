// How fast a run learns, step by step: up in a line, then down along half a cosine.
#pragma once

#include <cstdint>

namespace outrider {

struct Schedule {
  uint64_t steps = 1;
  uint64_t warm_up_steps = 0;  // fewer than steps
  double peak = 1e-3;
  double floor = 1e-4;  // where the last step ends

  // The rate of step 0, 1, ... The peak is reached at step warm_up_steps.
  double RateAt(uint64_t step) const;
};

}  // namespace outrider
